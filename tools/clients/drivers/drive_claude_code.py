"""Compatibility test with Claude Code: `claude -p`, over Anthropic's messages API."""

import json

from command_line import run_program
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        server: dict[str, object] = {
            "type": "stdio",
            "command": command,
            "args": arguments,
            "env": trial.environment,
        }
    else:
        server = {"type": "http", "url": trial.url}
    config = trial.write("mcp.json", json.dumps({"mcpServers": {"waybook": server}}))
    options = ("--strict-mcp-config", "--mcp-config", str(config), "--allowedTools", "mcp__waybook")
    run_program(
        trial,
        # This program works even if no install script of the npm package was run.
        "@anthropic-ai/claude-code/cli-wrapper.cjs",
        *("--model", "claude-sonnet-4-5", *options, "-p", trial.prompt),
        ANTHROPIC_BASE_URL=trial.model_url,
        ANTHROPIC_API_KEY="none",
        CLAUDE_CONFIG_DIR=f"{trial.workplace}/claude",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        MCP_TIMEOUT="60000",
    )


main(read_trial())
