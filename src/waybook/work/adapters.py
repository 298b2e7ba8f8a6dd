"""Adapters: how each agent is started, and how its output is read. They are data in TOML files."""

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from re import Pattern
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from waybook.errors import InvalidInput, Misconfigured
from waybook.json_values import Json, children
from waybook.work.tasks import OutcomeKind

CUSTOM: Final = "cmd:"
MAX_FILE_BYTES: Final = 256 * 1024
MAX_WORKERS: Final = 64


Words = tuple[str, ...]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadRule(_Table):
    """Meaning of the output lines that satisfy `when`. The other fields are paths into a line."""

    when: Mapping[str, str | bool | int] = {}
    conversation: str | None = None
    model: str | None = None
    #: Last message of the agent, complete or in pieces, which `ends_text` separates.
    text: str | None = None
    text_piece: str | None = None
    ends_text: bool = False
    result: str | None = None
    #: Lines for people.
    shown: Words = ()
    error: Words = ()
    retry: str | None = None
    resets: str | None = None
    usage: Literal["add", "total"] | None = None
    #: Lines with the same value here report the same request.
    usage_key: str | None = None
    input_tokens: Words = ()
    output_tokens: Words = ()
    cost_dollars: str = ""

    def applies(self, line: Json) -> bool:
        return all(value in find(line, path) for path, value in self.when.items())


class Errors(_Table):
    """Patterns by which the error of an agent that failed is classified."""

    quota: tuple[Pattern[str], ...] = ()
    sign_in: tuple[Pattern[str], ...] = ()
    no_model: tuple[Pattern[str], ...] = ()
    no_network: tuple[Pattern[str], ...] = ()
    #: Phrases that say when a quota is reset.
    resets: tuple[Pattern[str], ...] = ()

    def classify(self, text: str) -> OutcomeKind:
        """Return the first kind of errors with a pattern that occurs in the text."""
        for kind in ("quota", "sign_in", "no_model", "no_network"):
            for pattern in getattr(self, kind):
                if re.search(pattern.pattern, text, re.IGNORECASE | re.MULTILINE):
                    return OutcomeKind(kind)
        return OutcomeKind.FAILED


class Endpoint(_Table):
    """Model endpoint with the OpenAI or Anthropic API, for jobs that need only text."""

    url: str
    model: str
    #: Variable with the API key.
    key_variable: str | None = None
    dollars_per_million_input: Annotated[float, Field(ge=0)] = 0
    dollars_per_million_output: Annotated[float, Field(ge=0)] = 0


class Adapter(_Table):
    name: str
    #: Words of a nested list are left out together if one of their values is missing.
    command: tuple[str | Words, ...] = ()
    endpoint: Endpoint | None = None
    permissions: Words = ()
    model: str | None = None
    #: `strict`: the agent accepts only schemas in which every property is required.
    schema_dialect: Literal["any", "strict"] = "any"
    mcp_form: Literal["mcpServers", "codex", "gemini", "opencode"] = "mcpServers"
    output: Literal["text", "json-lines"] = "text"
    #: The reported usage contains that of the earlier runs of the same conversation.
    usage_of_conversation: bool = False
    read: tuple[ReadRule, ...] = ()
    errors: Errors = Errors()
    stderr_retry: Pattern[str] | None = None
    #: Names of variables that the agent gets from this process; `*` stands for any ending.
    pass_variables: Words = ()
    set_variables: Mapping[str, str] = {}
    #: Command that confines the agent, such as bubblewrap; the agent's command follows it.
    wrap: Words = ()

    @model_validator(mode="after")
    def _has_command_or_endpoint(self) -> "Adapter":
        if bool(self.command) == bool(self.endpoint):
            raise ValueError("set `command` or `endpoint`")
        return self

    def takes(self, name: str) -> bool:
        """Return whether the command has a place for this value."""
        return f"{{{name}" in str(self.command)


class _File(_Table):
    agents: Mapping[str, dict[str, Any]] = {}
    errors: Errors = Errors()
    wrap: Words = ()


class Adapters(NamedTuple):
    by_name: Mapping[str, Adapter]
    errors: Errors
    wrap: Words


def load_adapters(user_file: Path | None = None) -> Adapters:
    """Return the agents that Waybook knows, changed and extended by the user's file.

    Raises:
        Misconfigured: the file cannot be read, or has unknown or invalid fields.
    """
    try:
        known = _File.model_validate(tomllib.loads(_known_agents()))
        custom = _File()
        if user_file is not None and user_file.is_file():
            custom = _File.model_validate(_read(user_file))
        errors = known.errors.model_copy(update=custom.errors.model_dump(exclude_unset=True))
        tables = dict(known.agents)
        for name, table in custom.agents.items():
            base = table.pop("like", name)
            if base != name and base not in tables:
                raise Misconfigured(f"{user_file}: agents.{name}.like: there is no agent {base}")
            tables[name] = {**tables.get(base, {}), **table}
        common = {"errors": errors, "wrap": custom.wrap}
        adapters = {
            name: Adapter.model_validate({**common, **table, "name": name})
            for name, table in tables.items()
        }
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Misconfigured(f"{user_file}: {place or error.title}: {first['msg']}") from None
    return Adapters(adapters, errors, custom.wrap)


@lru_cache(maxsize=1)
def _known_agents() -> str:
    return resources.files("waybook.work").joinpath("agents.toml").read_text("utf-8")


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise Misconfigured(f"{path} has over {MAX_FILE_BYTES:,} bytes")
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Misconfigured(f"cannot read {path}: {error}") from error


def find_adapter(option: str, adapters: Adapters) -> tuple[Adapter, int]:
    """Return the agent and the number of workers that an option such as `codex:2` means.

    Raises:
        InvalidInput: there is no such agent, or the number is out of bounds.
    """
    if option.startswith(CUSTOM):
        return _custom(option.removeprefix(CUSTOM), adapters), 1
    name, _, number = option.partition(":")
    if name not in adapters.by_name:
        names = ", ".join(adapters.by_name)
        raise InvalidInput(
            f"there is no agent {name!r}; there are {names}, and cmd:… for any other command"
        )
    workers = int(number) if number.isascii() and number.isdigit() else 0 if number else 1
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidInput(
            f"{option}: the number of workers must be from 1 to {MAX_WORKERS}, as in {name}:2"
        )
    return adapters.by_name[name], workers


def _custom(command: str, adapters: Adapters) -> Adapter:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidInput(f"cmd:{command}: {error}") from None
    if not words:
        raise InvalidInput("cmd: needs a command, as in 'cmd:my-agent {prompt_file}'")
    name = Path(words[0]).name
    return Adapter(name=name, command=words, errors=adapters.errors, wrap=adapters.wrap)


def init_adapters(path: Path, adapters: Adapters) -> list[str]:
    """Write a file for the agents that are installed, unless it exists; return lines to print."""
    text = ["# Agents of `waybook work`. A field set here replaces the field that Waybook knows."]
    lines = []
    for name, adapter in adapters.by_name.items():
        program = shutil.which(str(adapter.command[0])) if adapter.command else None
        lines.append(f"{name}: {program or 'not installed'}")
        if program is not None:
            # A list of texts without control characters has the same form in JSON and TOML.
            may = json.dumps(adapter.permissions, ensure_ascii=False)
            text += ["", f"[agents.{name}]", "# What the agent may do without asking."]
            text += [f"permissions = {may}", '# model = "…"']
    if path.exists():
        return [*lines, f"{path} exists and was not changed"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*text, ""]), "utf-8")
    return [*lines, f"wrote {path}"]


def find(value: Json, path: str) -> list[Json]:
    """Return the values at a path such as `a.*.b`; `*` stands for every item of a list or object.

    >>> find({"a": [{"b": 1}, {"b": 2}, {}]}, "a.*.b"), find({"a": 1}, "b")
    ([1, 2], [])
    """
    values = [value]
    for name in path.split("."):
        values = list(_below(values, name))
    return values


def _below(values: list[Json], name: str) -> Iterator[Json]:
    for value in values:
        if name == "*":
            yield from children(value)
        elif isinstance(value, dict) and name in value:
            yield value[name]
