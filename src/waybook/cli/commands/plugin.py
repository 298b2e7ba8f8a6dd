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
from waybook.cli.client_config.clients import CLIENTS, codex_hooks, program_command
from waybook.cli.client_config.files import read_config, write_config
from waybook.cli.commands.connect import Request, carry_out, test_entry
from waybook.cli.options import yes_option
from waybook.cli.output import print_line
from waybook.cli.terminal.errors import HintedError
from waybook.settings_reading import settings_from

SOURCE: Final = Path(waybook.__file__).parent / "plugins"
HOOK: Final = SOURCE / "waybook_hook.py"
_CODEX: Final = "codex"
#: For each plugin, the client that uses it and the file that configures the MCP server.
ENTRIES: Final = {
    "claude-code": (CLIENTS["claude-code"], ".mcp.json"),
    "gemini-cli": (CLIENTS["gemini"], "gemini-extension.json"),
}
#: Mode of the data directory: other users of the machine, such as the one that runs the embedded
#: database, can open paths below the directory but cannot list it.
_TRAVERSABLE: Final = 0o711
TWICE: Final = "Remove an entry of `waybook connect`, or every tool is listed twice."
_TRUST: Final = """\
Codex skips hooks that you have not trusted, without a message. Start codex, enter
/hooks, review the two hooks and trust them; Waybook never does this for you."""


@click.command()
@click.argument("client", type=click.Choice(["claude-code", _CODEX, "gemini-cli"]))
@click.option("--install", is_flag=True, help="Install the plugin, and test it with a real call.")
@yes_option
def command(*, client: str, install: bool, yes: bool) -> None:
    """Show how to install a client's plugin, or install it.

    The plugin keeps an agent on its plan after a compaction, a restart or a pause. Without
    --install, nothing is changed in the client.
    """
    if client == _CODEX:
        hook = shlex.join(["python3", "-I", "-S", str(HOOK)])
        plugin = replace(CLIENTS[_CODEX], hooks=codex_hooks(hook))
        carry_out(Request(_CODEX, plugin), only_print=not install, yes=yes)
        print_line(f"\n{_TRUST}")
        return
    folder = settings_from({}).settings.data_dir.absolute() / "plugins"
    write_plugins(folder)
    for words in _install_commands(client, folder):
        print_line(f"$ {shlex.join(words)}")
        if install:
            program = shutil.which(words[0])
            if program is None:
                raise HintedError(f"{words[0]} is not on your PATH", "install the client first")
            done = subprocess.run([program, *words[1:]], check=False)  # noqa: S603 - a fixed command
            if done.returncode:
                message = f"{words[0]} exited with {done.returncode}; nothing was tested"
                raise HintedError(message, None)
    if install:
        reader, name = ENTRIES[client]
        test_entry(reader, folder / client / name, "waybook doctor")
    print_line(f"\n{TWICE}")


def write_plugins(folder: Path) -> None:
    """Write the plugins to a folder. Each contains a hook and the command that starts Waybook."""
    folder.parent.mkdir(_TRAVERSABLE, parents=True, exist_ok=True)
    left_out = shutil.ignore_patterns("__pycache__", "mcpb")
    shutil.copytree(SOURCE, folder, ignore=left_out, dirs_exist_ok=True)
    for client, (reader, name) in ENTRIES.items():
        shutil.copyfile(HOOK, folder / client / "hooks" / HOOK.name)
        entry = reader.stdio_entry([*program_command(), "mcp"])
        file, template = folder / client / name, SOURCE / client / name
        write_config(file, reader.add(read_config(template), entry))


def _install_commands(client: str, folder: Path) -> Sequence[Sequence[str]]:
    if client == "gemini-cli":
        return [("gemini", "extensions", "install", str(folder / client))]
    return [
        ("claude", "plugin", "marketplace", "add", str(folder)),
        ("claude", "plugin", "install", "waybook@waybook"),
    ]
