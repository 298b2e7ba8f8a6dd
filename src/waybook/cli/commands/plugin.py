"""`waybook plugin`: prints how to install the plugin of a client, and changes nothing."""

import json
import shlex
from pathlib import Path
from typing import Final

import click

import waybook
from waybook.cli.output import print_line

FOLDER: Final = Path(waybook.__file__).parent / "plugins"
CLIENTS: Final = ("claude-code", "codex", "gemini-cli")


def claude_code_text(folder: Path) -> str:
    return (
        "Install the plugin with its tools, hooks and commands:\n\n"
        f"  claude plugin marketplace add {shlex.quote(str(folder))}\n"
        "  claude plugin install waybook@waybook\n\n"
        "Remove an entry that you added with `claude mcp add waybook`, or every tool is listed\n"
        "twice."
    )


def codex_text(folder: Path) -> str:
    command = shlex.join(["python3", "-I", "-S", str(folder / "waybook_hook.py")])
    hooks = "\n".join(
        f'\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\n'
        f"command = {json.dumps(command)}\ntimeout = 5"
        for event in ("SessionStart", "Stop")
    )
    return (
        "Add these lines to ~/.codex/config.toml:\n\n"
        f'[mcp_servers.waybook]\ncommand = "waybook"\nargs = ["mcp"]\n{hooks}\n\n'
        "Codex skips hooks that you have not trusted, without a message. Start codex, enter\n"
        "/hooks, review the two hooks and trust them; Waybook never does this for you."
    )


def gemini_cli_text(folder: Path) -> str:
    path = shlex.quote(str(folder / "gemini-cli"))
    return f"Install the extension with its tools and hooks:\n\n  gemini extensions install {path}"


TEXTS: Final = {
    "claude-code": claude_code_text,
    "codex": codex_text,
    "gemini-cli": gemini_cli_text,
}


@click.command()
@click.argument("client", type=click.Choice(CLIENTS))
def command(client: str) -> None:
    """Show how to install the plugin of a client.

    The plugin keeps an agent on its plan after a compaction or a restart. Nothing is changed.
    """
    print_line(TEXTS[client](FOLDER))
