"""Minimal edits of TOML text: add, replace or remove the table of one MCP server.

After every edit, the text is parsed again and compared with the expected value.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from waybook.cli.client_config.files import ConfigError, line_of

MARK: Final = "# Added by `waybook connect`; to remove it: waybook connect codex --remove"
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+$")
_HEADER: Final = re.compile(r"[ \t]*\[")
_ERROR_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class Section:
    """The lines of a table, without the comments and blanks after them."""

    path: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """Parse TOML text. Numbers with a fraction are returned as texts."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _ERROR_LINE.search(message)
        line = int(place[1]) if place else text.count("\n") + 1
        message = _ERROR_LINE.sub("", message)
        raise ConfigError(f"this is not TOML: {message}", line) from None
    except RecursionError as error:
        raise ConfigError(f"this is not TOML that can be edited: {error}") from None


def read_entry(text: str, container: str, name: str) -> dict[str, Any] | None:
    tables = parse(text).get(container, {})
    table = tables.get(name) if isinstance(tables, dict) else tables
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{container}.{name} is not a table", _line_of_name(text, container))
    return table


def add_entry(text: str | None, container: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with the table `container.name` set to the entry.

    >>> print(add_entry("a = 1", "s", "w", {"args": ["x"]}).replace(MARK, "# …"))
    a = 1
    # …
    [s.w]
    args = ["x"]
    <BLANKLINE>

    Raises:
        ConfigError: the text cannot be parsed or edited safely.
    """
    if text is None:
        return _block(container, name, entry, "\n")
    existing = read_entry(text, container, name)
    subtables = {key: value for key, value in (existing or {}).items() if isinstance(value, dict)}
    expected = {**subtables, **entry}
    if existing == expected:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    if existing is None:
        changed = text + newline + _block(container, name, entry, newline)
    else:
        section = _sections(text, (container, name))[(container, name)]
        changed = (
            text[: section.start] + _table(container, name, entry, newline) + text[section.end :]
        )
    if read_entry(changed, container, name) != expected or _others(changed, container, name) != (
        _others(text, container, name)
    ):
        raise ConfigError("the entry cannot be changed without changing other parts of the file")
    return changed


def remove_entry(text: str, container: str, name: str) -> str:
    if read_entry(text, container, name) is None:
        return text
    sections = sorted(_sections(text, (container, name)).values(), key=lambda part: -part.start)
    remaining = _others(text, container, name)
    # Try to remove the line break before Waybook's comment too, unless other tables would change.
    for with_break in (True, False):
        changed = text
        for section in sections:
            start = _start_with_mark(changed, section.start, with_break=with_break)
            changed = changed[:start] + changed[section.end :]
        try:
            if read_entry(changed, container, name) is None and remaining == _others(
                changed, container, name
            ):
                return changed
        except ConfigError:
            continue
    raise ConfigError("the entry cannot be removed without changing other parts of the file")


def _block(container: str, name: str, entry: Mapping[str, Any], newline: str) -> str:
    return MARK + newline + _table(container, name, entry, newline)


def _table(container: str, name: str, entry: Mapping[str, Any], newline: str) -> str:
    lines = [f"[{container}.{name}]", *(f"{key} = {_value(entry[key])}" for key in entry)]
    return "".join(line + newline for line in lines)


def _value(value: object) -> str:
    """Return a text, a list of texts or a flat table as TOML."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sections(text: str, path: tuple[str, str]) -> dict[tuple[str, ...], Section]:
    sections, inside = dict[tuple[str, ...], Section](), None
    for match in _LINE.finditer(text):
        line = match[0].strip()
        if _HEADER.match(match[0]) and (header := _header_path(line)) is not None:
            inside = header if header[:2] == path else None
            start = match.start()
            if inside is not None:
                sections[inside] = Section(inside, start, match.end())
        elif inside is not None and line and not line.startswith("#"):
            sections[inside] = Section(inside, sections[inside].start, match.end())
    if path not in sections:
        raise ConfigError(
            f"{'.'.join(path)} is not written as a table with a header of its own",
            _line_of_name(text, path[1]),
        )
    return sections


def _header_path(line: str) -> tuple[str, ...] | None:
    """Return the path of a table header, or None if the line is not one.

    >>> _header_path('[a."b.c"] # comment')
    ('a', 'b.c')
    """
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = list[str]()
    while isinstance(value, dict) and value:
        ((key, value),) = value.items()
        path.append(key)
    return tuple(path)


def _others(text: str, container: str, name: str) -> dict[str, Any]:
    value = parse(text)
    tables = {key: table for key, table in value.pop(container, {}).items() if key != name}
    return {**value, **({container: tables} if tables else {})}


def _start_with_mark(text: str, start: int, *, with_break: bool) -> int:
    """Return the start of Waybook's comment above a table, or else of the table itself."""
    for newline in ("\r\n", "\n"):
        mark = MARK + newline
        if text.endswith(mark, 0, start):
            start -= len(mark)
            return (
                start - len(newline) if with_break and text.endswith(newline, 0, start) else start
            )
    return start


def _line_of_name(text: str, name: str) -> int:
    return line_of(text, max(text.find(name), 0))
