"""Compatibility test with Codex: `codex exec`, over OpenAI's responses API."""

import json

from command_line import run_program
from trial import Trial, read_trial

CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "read-only"

[model_providers.scripted]
name = "scripted"
base_url = {openai_url}
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

# Codex waits for a required MCP server. Without `required`, Codex would not wait for Waybook to
# start, and could begin without Waybook's tools.
[mcp_servers.waybook]
required = true
startup_timeout_sec = 60
{server}

# Waybook marks this tool as destructive, because a decision can end the plan. Codex runs without a
# terminal, so it cannot ask a person to approve the call. Approve the tool here instead.
[mcp_servers.waybook.tools.submit_user_decision]
approval_mode = "approve"
"""


def main(trial: Trial) -> None:
    """Write the configuration of Codex as the documentation shows it; run one prompt."""
    command, *arguments = trial.command
    if trial.is_stdio:
        pairs = (f"{name} = {json.dumps(text)}" for name, text in trial.environment.items())
        server = (
            f"command = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
            f"env = {{ {', '.join(pairs)} }}"
        )
    else:
        server = f"url = {json.dumps(trial.url)}"
    text = CONFIG.format(openai_url=json.dumps(trial.openai_url), server=server)
    home = trial.write("codex/config.toml", text).parent
    options = ("exec", "--skip-git-repo-check", "--json", trial.prompt)
    run_program(trial, "@openai/codex/bin/codex.js", *options, CODEX_HOME=str(home))


main(read_trial())
