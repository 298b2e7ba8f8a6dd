"""`waybook connect`: writes the configuration of an MCP client, and tests it with a real call."""

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from waybook.cli.client_config.clients import (
    CLIENTS,
    TOKEN_VARIABLE,
    Client,
    ConfigScope,
    Places,
    config_file,
    program_command,
)
from waybook.cli.client_config.files import (
    ConfigError,
    back_up,
    backup_of,
    delete_config,
    read_config,
    write_config,
)
from waybook.cli.lazy import load
from waybook.cli.options import data_dir_option, tools_option, yes_option
from waybook.cli.output import print_line
from waybook.cli.terminal.errors import HintedError

_CHATGPT: Final = "chatgpt"
#: Clients for which Waybook only prints instructions, because it cannot edit their configuration.
_PRINTED: Final = frozenset({_CHATGPT, "generic"})

_TOKEN: Final = re.compile(r"Bearer (?!\$?\{)[^\"]+")

_CHATGPT_STEPS: Final = """\
ChatGPT connects over HTTPS and starts no programs, so it has no configuration file.

1. Serve with authentication:       waybook serve --auth required
2. Create a token for ChatGPT:      waybook token add USER --label chatgpt
3. Make the server reachable over HTTPS with a proxy or tunnel, and set public_url to its address.
4. In ChatGPT: Settings, Connectors, Advanced, Developer mode; then Create:
     name               waybook
     MCP server URL     {url}
     authentication     the token of step 2
"""


@dataclass(frozen=True, slots=True)
class Request:
    name: str
    client: Client
    scope: ConfigScope = ConfigScope.USER
    url: str | None = None
    token: str | None = None
    arguments: list[str] = field(default_factory=list)

    def entry(self, environment: Mapping[str, str]) -> dict[str, Any]:
        if self.url is None:
            return self.client.stdio_entry([*program_command(), "mcp", *self.arguments])
        reference = self.client.token_reference if environment.get(TOKEN_VARIABLE) else None
        return self.client.http_entry(self.url, self.token or reference)


@click.command()
@click.argument("client", type=click.Choice([*CLIENTS, _CHATGPT]), metavar="CLIENT")
@click.option(
    "--scope",
    type=click.Choice([str(scope) for scope in ConfigScope]),
    default=str(ConfigScope.USER),
    help="Configuration file: of the user, or of the project in this folder (default: user).",
)
@click.option("--http", "url", metavar="URL", help="Connect to a running server instead of stdio.")
@click.option(
    "--token",
    metavar="TOKEN",
    help=f"API token for --http (prefer {TOKEN_VARIABLE}, which the file then refers to).",
)
@tools_option
@data_dir_option
@click.option("--remove", is_flag=True, help="Remove what this command wrote.")
@click.option("--print", "only_print", is_flag=True, help="Only print what would be written.")
@yes_option
def command(  # noqa: PLR0913 - one parameter for each option
    *,
    client: str,
    scope: str,
    url: str | None,
    token: str | None,
    tools: str | None,
    data_dir: Path | None,
    remove: bool,
    only_print: bool,
    yes: bool,
) -> None:
    """Connect an MCP client to Waybook.

    Shows the change to the client's configuration file, asks, writes it with a backup, and tests it
    with a real call. CLIENT is claude-code, codex, cursor, vscode, gemini, qwen, opencode,
    continue, claude-desktop, chatgpt or generic.
    """
    if client == _CHATGPT:
        click.echo(_CHATGPT_STEPS.format(url=url or "https://YOUR_HOST/mcp"), nl=False)
        return
    arguments = [] if tools is None else ["--tools", tools]
    arguments += [] if data_dir is None else ["--data-dir", str(data_dir.absolute())]
    named, place = CLIENTS[client], ConfigScope(scope)
    request = Request(client, named, place, _endpoint(url), token, arguments)
    _check_options(request)
    carry_out(request, remove=remove, only_print=only_print, yes=yes)


def carry_out(request: Request, *, remove: bool = False, only_print: bool, yes: bool) -> None:
    """Add Waybook's entry to the client's file, remove it, or only print the change."""
    file = _file_of(request)
    try:
        if remove:
            _remove(request, file, only_print=only_print, yes=yes)
        else:
            _connect(request, file, only_print=only_print, yes=yes)
    except ConfigError as error:
        raise HintedError(
            f"{file}: {error}; nothing was changed",
            f"correct the file, or print the entry and add it by hand: "
            f"waybook connect {request.name} --print",
        ) from None


def _check_options(request: Request) -> None:
    if request.url is not None and request.client.url_field is None:
        raise click.UsageError(
            f"{request.client.title} adds servers over HTTP in its own settings, not in its "
            "configuration file; leave --http out to connect over stdio."
        )
    if request.url is not None and request.arguments:
        raise click.UsageError("--tools and --data-dir belong to the server; leave them out here.")
    if request.url is None and request.token is not None:
        raise click.UsageError("--token is for a server over HTTP; add --http URL.")
    if request.token is not None and request.scope is ConfigScope.PROJECT:
        raise click.UsageError(
            "a token does not belong in a file of the project, which others can read; set "
            f"{TOKEN_VARIABLE} and leave --token out: the file then refers to the variable."
        )


def _endpoint(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise click.BadParameter(f"this is not a URL: {error}", param_hint="--http") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        message = f"{url} is not an HTTP URL; an example is http://127.0.0.1:8750/mcp"
        raise click.BadParameter(message, param_hint="--http")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/mcp"


def _file_of(request: Request) -> Path | None:
    places = Places(Path.home(), Path.cwd(), sys.platform, os.environ)
    file = config_file(request.client, request.scope, places)
    if file is None and request.name not in _PRINTED:
        raise click.UsageError(
            f"{request.client.title} has no configuration file for a project; use --scope user."
        )
    return file


def _connect(request: Request, file: Path | None, *, only_print: bool, yes: bool) -> None:
    client, entry = request.client, request.entry(os.environ)
    if file is None or only_print:
        if file is not None:
            print_line(f"# {file}", err=True)
        print_line(client.add(None, entry).rstrip())
        return
    old = read_config(file)
    new = client.add(old, entry)
    if new == old:
        print_line(f"{client.title} is already connected in {file}")
    else:
        _show_change(file, old, new)
        _print_notes(request)
        if not yes:
            click.confirm("Write this?", abort=True)
        _write(client, file, old, new)
    undo = f"waybook connect {request.name} --scope {request.scope} --remove"
    check = "waybook doctor" if request.url is None else "waybook serve"
    test_entry(client, file, f"{check}; to undo: {undo}")


def _show_change(file: Path, old: str | None, new: str) -> None:
    print_line(f"{'Change' if old is not None else 'Create'} {file}:\n")
    before = [] if old is None else old.splitlines()
    shown = difflib.unified_diff(before, new.splitlines(), lineterm="", n=2)
    for line in list(shown)[2:]:
        print_line(_TOKEN.sub("Bearer …", line))
    print_line("")


def _print_notes(request: Request) -> None:
    """Warn about variables that the server may not get, and about paths in project files."""
    if request.url is not None:
        return
    names = sorted(name for name in os.environ if name.startswith("WAYBOOK_"))
    if names:
        print_line(f"note: the client may start the server without {', '.join(names)} of this")
        print_line("shell; write settings that the server needs into the settings file.\n")
    if request.scope is ConfigScope.PROJECT:
        print_line("note: the path of the program is valid on this machine; do not commit it.\n")


def _write(client: Client, file: Path, old: str | None, new: str) -> None:
    """Back up the configuration file, then write the new text to it.

    If the file differs from its existing backup only by Waybook's entry, keep that backup.
    """
    if old is None:
        write_config(file, new)
        print_line(f"✓ created {file}")
        return
    saved = read_config(backup_of(file))
    if saved is None or client.read(old) is None or client.remove(old, saved) != saved:
        back_up(file)
    write_config(file, new)
    print_line(f"✓ changed {file}; the file before is {backup_of(file).name}")


def test_entry(client: Client, file: Path, hint: str) -> None:
    """Call the configured server as the client would, and print the outcome."""
    probing = load("waybook.cli.client_config.probe:probe")
    failure = load("waybook.cli.client_config.probe:ProbeFailed")
    token = load("waybook.cli.client_config.probe:expand_token")
    entry = client.read(read_config(file) or "")
    try:
        answers = probing(entry, token(entry, os.environ))
    except failure as error:
        message = f"the configuration is in {file}, but its server did not answer: {error}"
        raise HintedError(message, hint) from None
    for request, answer in answers.items():
        print_line(f"✓ {request}: {answer}")
    print_line(f"next: {client.activation}")


def _remove(request: Request, file: Path | None, *, only_print: bool, yes: bool) -> None:
    client = request.client
    old = None if file is None else read_config(file)
    if file is None or old is None or client.read(old) is None:
        print_line(f"{client.title} is not connected{f' in {file}' if file else ''}")
        return
    backup = backup_of(file)
    saved = read_config(backup)
    new = client.remove(old, saved)
    is_created = saved is None and new.strip() in {"", "{}"}
    if is_created:
        print_line(f"Delete {file}, which has no other content.\n")
    else:
        _show_change(file, old, new)
    if only_print:
        return
    if not yes:
        click.confirm("Delete it?" if is_created else "Write this?", abort=True)
    if is_created:
        delete_config(file, {Path.home(), Path.cwd()})
        print_line(f"✓ deleted {file}")
        return
    if new != saved:
        back_up(file)
    write_config(file, new)
    if new == saved:
        backup.unlink()
        print_line(f"✓ restored {file}")
    else:
        print_line(f"✓ changed {file}; the file before is {backup.name}")
