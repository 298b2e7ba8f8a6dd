"""Compatibility test with Continue: `cn --print`, over the chat completions API."""

import json

from command_line import run_program
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: dict[str, object] = {"type": "streamable-http", "url": trial.url}
    if trial.is_stdio:
        server = {"command": command, "args": arguments, "env": trial.environment}
    model = {
        "name": "scripted",
        "provider": "openai",
        "model": "scripted",
        "apiBase": trial.openai_url,
        "apiKey": "none",
        "capabilities": ["tool_use"],
    }
    config = {
        "name": "trial",
        "version": "1.0.0",
        "schema": "v1",
        "models": [model],
        "mcpServers": [{"name": "waybook", **server, "connectionTimeout": 60000}],
    }
    # The configuration must be YAML, and JSON is valid YAML.
    file = trial.write("config.yaml", json.dumps(config))
    options = ("--print", "--auto", "--config", str(file), trial.prompt)
    run_program(trial, "@continuedev/cli/dist/cn.js", *options)


main(read_trial())
