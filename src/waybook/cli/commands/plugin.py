"""`waybook plugin`: shows how to install the plugin of a client, or installs it."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

import waybook
from waybook.cli.client_config.clients import CLIENTS, codex_hooks
from waybook.cli.commands.connect import Request, carry_out, test_entry
from waybook.cli.output import print_line
from waybook.cli.terminal.errors import HintedError

FOLDER: Final = Path(waybook.__file__).parent / "plugins"
HOOK: Final = FOLDER / "waybook_hook.py"
_CODEX: Final = "codex"
#: Commands that install the plugin in the other clients.
COMMANDS: Final = {
    "claude-code": (
        ("claude", "plugin", "marketplace", "add", str(FOLDER)),
        ("claude", "plugin", "install", "waybook@waybook"),
    ),
    "gemini-cli": (("gemini", "extensions", "install", str(FOLDER / "gemini-cli")),),
}
#: The file that contains each plugin's entry, and the client that reads the file.
ENTRIES: Final = {
    "claude-code": (CLIENTS["claude-code"], FOLDER / "claude-code" / ".mcp.json"),
    "gemini-cli": (CLIENTS["gemini"], FOLDER / "gemini-cli" / "gemini-extension.json"),
}
TWICE: Final = "Remove an entry of `waybook connect`, or every tool is listed twice."
_TRUST: Final = """\
Codex skips hooks that you have not trusted, without a message. Start codex, enter
/hooks, review the two hooks and trust them; Waybook never does this for you."""


@click.command()
@click.argument("client", type=click.Choice(["claude-code", _CODEX, "gemini-cli"]))
@click.option("--install", is_flag=True, help="Install the plugin, and test it with a real call.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
def command(*, client: str, install: bool, yes: bool) -> None:
    """Show how to install the plugin of a client, or install it.

    The plugin keeps an agent on its plan after a compaction, a restart or a pause. Without
    --install, nothing is changed.
    """
    if client == _CODEX:
        hook = shlex.join(["python3", "-I", "-S", str(HOOK)])
        plugin = replace(CLIENTS[_CODEX], hooks=codex_hooks(hook))
        carry_out(Request(_CODEX, plugin), only_print=not install, yes=yes)
        print_line(f"\n{_TRUST}")
        return
    add_hook(client)
    for words in COMMANDS[client]:
        print_line(f"$ {shlex.join(words)}")
        if install:
            _run(words)
    if install:
        test_entry(*ENTRIES[client], "the plugin starts waybook by name: add it to your PATH")
    print_line(f"\n{TWICE}")


def add_hook(client: str) -> None:
    """Copy the hook script to the folder of a plugin, unless it is there, as in the wheel."""
    copy = FOLDER / client / "hooks" / HOOK.name
    if not copy.is_file() or copy.read_bytes() != HOOK.read_bytes():
        shutil.copyfile(HOOK, copy)


def _run(words: Sequence[str]) -> None:
    program = shutil.which(words[0])
    if program is None:
        raise HintedError(f"{words[0]} is not on your PATH", "install the client first")
    done = subprocess.run([program, *words[1:]], check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise HintedError(f"{words[0]} exited with {done.returncode}; nothing was tested", None)
