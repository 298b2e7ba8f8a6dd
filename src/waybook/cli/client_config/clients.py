"""Supported MCP clients, the format of their configuration files, and the command they start."""

import contextlib
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Any, Final

from waybook.cli.client_config import json_edit, toml_edit
from waybook.cli.client_config.files import ConfigError

_SERVER_NAME: Final = "waybook"
TOKEN_VARIABLE: Final = "WAYBOOK_TOKEN"  # noqa: S105 - the name of a variable


class ConfigScope(StrEnum):
    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Places:
    """Directories that may contain configuration files."""

    home: Path
    project: Path
    platform: str
    environment: Mapping[str, str]

    def folder(self, name: str) -> Path:
        """Return the directory of an environment variable with a default, or of applications."""
        if name == "applications":
            if self.platform == "darwin":
                return self.home / "Library" / "Application Support"
            is_windows = self.platform == "win32"
            name = "APPDATA:AppData/Roaming" if is_windows else "XDG_CONFIG_HOME:.config"
        variable, _, default = name.partition(":")
        return Path(self.environment.get(variable) or self.home / default)


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client, and the format of its configuration file."""

    title: str
    activation: str
    #: Whether the client allows comments in its JSON.
    comments: bool = False
    container: str = "mcpServers"
    #: Directory of the user's file: an environment variable and its default in the home directory,
    #: or `applications` for the directory in which desktop applications keep their settings.
    folder: str = ""
    user_file: str | None = None
    project_file: str | None = None
    stdio_fields: Mapping[str, str] = field(default_factory=dict)
    #: First fields of the entry for a server that is reached over HTTP.
    http_fields: Mapping[str, str] = field(default_factory=dict)
    #: Field for the server's URL. None if the file cannot describe HTTP servers.
    url_field: str | None = "url"
    headers_field: str = "headers"
    #: Reference to an environment variable, which a header contains instead of the token. None if
    #: the client does not support references, so that the file must contain the token itself.
    token_reference: str | None = f"${{{TOKEN_VARIABLE}}}"
    #: Text that configures the hooks of Waybook's plugin. It is written after the server's entry.
    hooks: str = ""

    def stdio_entry(self, command: list[str]) -> dict[str, Any]:
        return {**self.stdio_fields, "command": command[0], "args": command[1:]}

    def http_entry(self, url: str, authorization: str | None) -> dict[str, Any]:
        entry: dict[str, Any] = {**self.http_fields, str(self.url_field): url}
        if authorization is not None:
            entry[self.headers_field] = {"Authorization": f"Bearer {authorization}"}
        return entry

    def add(self, text: str | None, entry: Mapping[str, Any]) -> str:
        place = (self.container, _SERVER_NAME)
        return json_edit.add_entry(text, *place, entry, comments=self.comments)

    def remove(self, text: str, before: str | None) -> str:
        """Return the configuration text without Waybook's entry.

        If the text is `before` with the entry added, return `before` unchanged.
        """
        entry = self.read(text)
        if entry is not None and before is not None:
            with contextlib.suppress(ConfigError):
                if self.read(before) is None and self.add(before, entry) == text:
                    return before
        return self.cut(text)

    def cut(self, text: str) -> str:
        place = (self.container, _SERVER_NAME)
        return json_edit.remove_entry(text, *place, comments=self.comments)

    def read(self, text: str) -> dict[str, Any] | None:
        place = (self.container, _SERVER_NAME)
        entry = json_edit.read_entry(text, *place, comments=self.comments)
        return entry if isinstance(entry, dict) else None


class Codex(Client):
    """The Codex client. Its TOML file names the environment variable that has the token."""

    def stdio_entry(self, command: list[str]) -> dict[str, Any]:
        return {**Client.stdio_entry(self, command), "required": True}

    def http_entry(self, url: str, authorization: str | None) -> dict[str, Any]:
        if authorization == self.token_reference:
            return {"url": url, "bearer_token_env_var": TOKEN_VARIABLE}
        return Client.http_entry(self, url, authorization)

    def add(self, text: str | None, entry: Mapping[str, Any]) -> str:
        added = toml_edit.add_entry(text, self.container, _SERVER_NAME, entry)
        return _CODEX_HOOK.sub("", added) + self.hooks if self.hooks else added

    def remove(self, text: str, before: str | None) -> str:
        return Client.remove(self, _CODEX_HOOK.sub("", text), before)

    def cut(self, text: str) -> str:
        return toml_edit.remove_entry(text, self.container, _SERVER_NAME)

    def read(self, text: str) -> dict[str, Any] | None:
        return toml_edit.read_entry(text, self.container, _SERVER_NAME)


_CODEX_HOOK: Final = re.compile(
    r"""\n?\[\[hooks\.(\w+)\]\]\n\[\[hooks\.\1\.hooks\]\]\ntype = "command"\n"""
    r"""command = [^\n]*waybook_hook\.py[^\n]*\ntimeout = 5\n"""
)


def codex_hooks(command: str) -> str:
    return "".join(
        f'\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\n'
        f"command = {json.dumps(command)}\ntimeout = 5\n"
        for event in ("SessionStart", "Stop")
    )


class OpenCode(Client):
    """The OpenCode client. Its entries contain the command and its arguments in one list."""

    def stdio_entry(self, command: list[str]) -> dict[str, Any]:
        return {**self.stdio_fields, "command": command}


def _clients() -> Iterator[tuple[str, Client]]:
    text = Path(__file__).with_name("clients.toml").read_text("utf-8")
    for name, table in tomllib.loads(text).items():
        fields: dict[str, Any] = {field: value or None for field, value in table.items()}
        yield name, {"codex": Codex, "opencode": OpenCode}.get(name, Client)(**fields)


CLIENTS: Final[Mapping[str, Client]] = dict(_clients())


def config_file(client: Client, scope: ConfigScope, places: Places) -> Path | None:
    if scope is ConfigScope.USER:
        return places.folder(client.folder) / client.user_file if client.user_file else None
    return places.project / client.project_file if client.project_file else None


PROGRAM: Final = "waybook"
#: Names of uv's cache folders for temporary environments, which uv may delete at any time.
_UV_CACHE: Final = re.compile(r"(?:archive|environments|builds)-v\d+")


def program_command() -> list[str]:
    return command_for(sys.argv[0], sys.executable, sys.prefix, shutil.which)


def command_for(
    started_as: str, python: str, prefix: str, find_program: Callable[[str], str | None]
) -> list[str]:
    """Return the command that starts this program again.

    >>> command_for("/bin/waybook", "/bin/python3", "/usr", {"/bin/waybook": "/bin/waybook"}.get)
    ['/bin/waybook']
    """
    if is_temporary_environment(PurePath(prefix)):
        return [find_program("uvx") or "uvx", PROGRAM]
    if PurePath(started_as).stem == PROGRAM and (program := find_program(started_as)):
        return [str(Path(program).absolute())]
    program = find_program(str(PurePath(python).with_name(PROGRAM)))
    return [program] if program else [python, "-m", PROGRAM]


def is_temporary_environment(prefix: PurePath) -> bool:
    """Return whether this environment belongs to `uvx`, which may delete it at any time.

    >>> is_temporary_environment(PurePath("/users/me/.cache/uv/archive-v0/x7Yf"))
    True
    >>> is_temporary_environment(PurePath("/users/me/.local/share/uv/tools/waybook"))
    False
    """
    return any(_UV_CACHE.fullmatch(part) for part in prefix.parts)
