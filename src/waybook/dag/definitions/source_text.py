"""Parses workflow definitions in YAML or JSON from untrusted sources.

Only a subset of YAML is accepted, without tags and merge keys.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Protocol, cast

import yaml
from yaml import events

from waybook.dag.diagnostics import Diagnostic, bad_recipe_error, quote_name
from waybook.errors import BadRecipe
from waybook.json_values import Json, children, refuse_constant

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
#: Maximum number of values in a definition. An alias counts as all the values it refers to.
MAX_PARTS = 200_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|^%TAG", re.MULTILINE
)
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_TAGS = frozenset(
    {None, "!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))}
)


def decode_text(data: bytes) -> str:
    """Decode the bytes of a definition file.

    Raises:
        BadRecipe: the file is too long or not UTF-8; the error contains the line and the column.
    """
    if len(data) > MAX_BYTES:
        raise _too_long()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        diagnostics = [Diagnostic("bad_text", f"line {line}, column {column}", "this is not UTF-8")]
        raise bad_recipe_error(diagnostics) from None


def parse_definition(text: str) -> object:
    """Parse a definition in YAML or JSON.

    Raises:
        BadRecipe: the text is neither YAML nor JSON, or exceeds a limit; the error contains the
            line and the column.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise _too_long()
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        # JSON is tried first, because its parser is faster. The YAML parser gives better error
        # messages.
        with suppress(ValueError, RecursionError):
            return _json(text.removeprefix("\ufeff"))
    return _yaml(text)


def _too_long() -> BadRecipe:
    message = f"the text is longer than {MAX_BYTES:,} bytes"
    return bad_recipe_error([Diagnostic("too_large", "line 1, column 1", message)])


def _json(text: str) -> object:
    value: Json = json.loads(text, object_pairs_hook=_object, parse_constant=refuse_constant)
    level: Sequence[Json] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in children(item)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a property occurs twice")
    return mapping


def _yaml(text: str) -> object:
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        line = text.count("\n", 0, unreadable.start()) + 1
        column = unreadable.start() - text.rfind("\n", 0, unreadable.start())
        message = f"{quote_name(unreadable.group())} is not allowed here"
        raise bad_recipe_error([Diagnostic("bad_text", f"line {line}, column {column}", message)])
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refusal(mark, error.problem or "this is not YAML") from error
    documents = builder.stack[0].value
    return documents[0] if isinstance(documents, list) and documents else None


class _Mark(Protocol):
    line: int
    column: int


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end was not read yet."""

    value: list[object] | dict[str, object]
    anchor: str | None = None
    parts: int = 1
    key: str | None = None

    @property
    def needs_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


class _Builder:
    def __init__(self) -> None:
        #: Lists and mappings whose end was not read yet. The first is the list of YAML documents.
        self.stack = [_Open([], parts=0)]
        self._anchors: dict[str | None, tuple[object, int]] = {}

    def take(self, event: events.Event) -> None:
        top, mark = self.stack[-1], event.start_mark
        match event:
            case events.ScalarEvent() | events.CollectionStartEvent() if (
                event.tag not in _PLAIN_TAGS
            ):
                raise _refusal(mark, f"the YAML tag {quote_name(event.tag)} is not supported")
            case events.ScalarEvent() if top.needs_key:
                _take_key(top, event.value, mark)
            case events.ScalarEvent():
                value = _plain_value(event.value) if event.implicit[0] else event.value
                self._add(value, 1, event.anchor, mark)
            case events.AliasEvent():
                if event.anchor not in self._anchors:
                    message = f"there is no anchor {quote_name(event.anchor)} before this alias"
                    raise _refusal(mark, message)
                self._add(*self._anchors[event.anchor], None, mark)
            case events.CollectionStartEvent():
                if len(self.stack) > MAX_DEPTH:
                    raise _refusal(mark, f"nested more than {MAX_DEPTH} levels deep", "too_deep")
                _refuse_as_key(top, mark)
                is_mapping = isinstance(event, events.MappingStartEvent)
                self.stack.append(_Open({} if is_mapping else [], event.anchor))
            case events.CollectionEndEvent():
                self.stack.pop()
                self._add(top.value, top.parts, top.anchor, mark)
            case events.DocumentStartEvent() if self.stack[0].value:
                raise _refusal(mark, "a definition must be a single YAML document")

    def _add(self, value: object, parts: int, anchor: str | None, mark: _Mark | None) -> None:
        top = self.stack[-1]
        _refuse_as_key(top, mark)
        if anchor is not None:
            self._anchors[anchor] = (value, parts)
        top.parts += parts
        if top.parts > MAX_PARTS:
            message = f"more than {MAX_PARTS:,} values, with aliases expanded"
            raise _refusal(mark, message, "too_large")
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[cast("str", top.key)] = value
            top.key = None


def _take_key(top: _Open, key: str, mark: _Mark | None) -> None:
    if key in cast("dict[str, object]", top.value):
        message = f"the property {quote_name(key)} occurs twice"
        raise _refusal(mark, message, "duplicate_property")
    top.key = key


def _refuse_as_key(top: _Open, mark: _Mark | None) -> None:
    if top.needs_key:
        raise _refusal(mark, "a key must be a text")


def _plain_value(text: str) -> object:
    """Return the value of an unquoted YAML scalar.

    >>> [_plain_value(text) for text in ("12", "1.5", "true", "", "yes", "2030-01-01")]
    [12, 1.5, True, None, 'yes', '2030-01-01']
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _refusal(mark: _Mark | None, message: str, name: str = "bad_text") -> BadRecipe:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return bad_recipe_error([Diagnostic(name, f"line {line}, column {column}", message)])


SUFFIX = ".yaml"


@cache
def builtin_definitions() -> Mapping[str, str]:
    folder = files("waybook.dag.definitions").joinpath("builtin")
    return MappingProxyType(
        {
            file.name.removesuffix(SUFFIX): file.read_text(encoding="utf-8")
            for file in sorted(folder.iterdir(), key=lambda file: file.name)
            if file.name.endswith(SUFFIX)
        }
    )
