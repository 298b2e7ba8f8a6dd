"""Minimal edits of TOML text: add, replace or remove the table of one MCP server.

A regular expression finds the table. After every edit, the text is parsed again and compared with
the expected value; if they differ, the edit is refused.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from waybook.cli.client_config.files import ConfigError, line_of

MARK: Final = "# Added by `waybook connect`; to remove it: waybook connect codex --remove"
_ERROR_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")
#: Lines of a table up to its last value. Comments and blank lines after the value are left out,
#: because they may belong to the next table.
_LINES: Final = r"[^\n]*(?:\n|\Z)(?:(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*[^\s\[#][^\n]*(?:\n|\Z))*"


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
        pattern = _table_pattern(container, name, "", inner=False)
        table = _table(container, name, entry, newline)
        changed, count = pattern.subn(lambda _: table, text, count=1)
        if not count:
            raise ConfigError(
                f"{container}.{name} is not written as a table with a header of its own",
                _line_of_name(text, name),
            )
    if read_entry(changed, container, name) != expected or _others(changed, container, name) != (
        _others(text, container, name)
    ):
        raise ConfigError("the entry cannot be changed without changing other parts of the file")
    return changed


def remove_entry(text: str, container: str, name: str) -> str:
    if read_entry(text, container, name) is None:
        return text
    remaining = _others(text, container, name)
    mark = rf"{re.escape(MARK)}\r?\n"
    # First try to also remove the line break before Waybook's comment. Keep the line break if other
    # tables would change.
    for lead in (rf"(?:(?:\r?\n)?{mark})?", rf"(?:{mark})?"):
        changed = _table_pattern(container, name, lead, inner=True).sub("", text)
        try:
            if read_entry(changed, container, name) is None and remaining == _others(
                changed, container, name
            ):
                return changed
        except ConfigError:
            continue
    raise ConfigError("the entry cannot be removed without changing other parts of the file")


def _table_pattern(container: str, name: str, lead: str, *, inner: bool) -> re.Pattern[str]:
    """Return a pattern for `lead` followed by the table and, with `inner`, its subtables."""
    keys = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in (container, name))
    rest = r"(?:\.[^\n]*)?" if inner else ""
    return re.compile(rf"{lead}^[ \t]*\[[ \t]*{keys}[ \t]*{rest}\]{_LINES}", re.MULTILINE)


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


def _others(text: str, container: str, name: str) -> dict[str, Any]:
    value = parse(text)
    tables = {key: table for key, table in value.pop(container, {}).items() if key != name}
    return {**value, **({container: tables} if tables else {})}


def _line_of_name(text: str, name: str) -> int:
    return line_of(text, max(text.find(name), 0))
