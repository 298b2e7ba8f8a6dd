"""Compatibility test with OpenCode: `opencode run`, over the chat completions API."""

import json
import os
import subprocess
import sys
from pathlib import Path

from trial import Trial, read_trial


def main(trial: Trial) -> None:
    """Write a configuration with the scripted model as provider; run one prompt."""
    server: dict[str, object] = {"type": "remote", "url": trial.url}
    if trial.is_stdio:
        server = {"type": "local", "command": trial.command, "environment": trial.environment}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": trial.openai_url, "apiKey": "none"},
        "models": {"scripted": {}},
    }
    config = {
        "mcp": {"waybook": {**server, "timeout": 60000}},
        "provider": {"scripted": provider},
        "permission": "allow",
        "autoupdate": False,
        "share": "disabled",
    }
    trial.write("opencode.json", json.dumps(config))
    program = Path(trial.installed) / "node_modules/opencode-linux-x64/bin/opencode"
    done = subprocess.run(
        [program, "run", "--model", "scripted/scripted", trial.prompt],
        cwd=trial.workplace,
        env={**os.environ, "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    sys.exit(done.returncode)


main(read_trial())
