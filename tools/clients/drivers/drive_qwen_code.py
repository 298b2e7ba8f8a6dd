"""Compatibility test with Qwen Code without a terminal, over the chat completions API."""

import json

from command_line import run_program
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    """Write the settings; run one prompt.

    The settings trust the server, so its tools need no approval.
    """
    command, *arguments = trial.command
    server: dict[str, object] = {"httpUrl": trial.url}
    if trial.is_stdio:
        server = {"command": command, "args": arguments, "env": trial.environment}
    settings = {
        "mcpServers": {"waybook": {**server, "trust": True, "timeout": 60000}},
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
    }
    trial.write("home/.qwen/settings.json", json.dumps(settings))
    run_program(
        trial,
        "@qwen-code/qwen-code/cli-entry.js",
        *("--auth-type", "openai", "--openai-api-key", "none"),
        *("--openai-base-url", trial.openai_url, "--model", "scripted", trial.prompt),
    )


main(read_trial())
