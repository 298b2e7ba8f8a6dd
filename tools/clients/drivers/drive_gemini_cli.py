"""Compatibility test with Gemini CLI without a terminal, over the Gemini API."""

import json

from command_line import run_program
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    """Write the settings; run one prompt.

    The settings trust the server, so its tools need no approval.
    """
    command, *arguments = trial.command
    if trial.is_stdio:
        server: dict[str, object] = {
            "command": command,
            "args": arguments,
            "env": trial.environment,
        }
    else:
        server = {"httpUrl": trial.url}
    settings = {
        "mcpServers": {"waybook": {**server, "trust": True, "timeout": 60000}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
    }
    trial.write("home/.gemini/settings.json", json.dumps(settings))
    run_program(
        trial,
        "@google/gemini-cli/bundle/gemini.js",
        *("--model", "gemini-2.5-flash", "--prompt", trial.prompt),
        GOOGLE_GEMINI_BASE_URL=trial.model_url,
        GEMINI_API_KEY="none",
        GEMINI_CLI_TRUST_WORKSPACE="true",
    )


main(read_trial())
