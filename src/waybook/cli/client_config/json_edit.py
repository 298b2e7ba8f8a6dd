"""Minimal edits of JSON text: add, replace or remove one named entry of an object.

All other bytes stay unchanged, including comments, which some clients allow.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from waybook.cli.client_config.files import ConfigError, line_of

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_WHITESPACE: Final = " \t\r\n"
_DEFAULT_INDENT: Final = "  "
_DECODER: Final = json.JSONDecoder(parse_constant=str)


class Member(NamedTuple):
    key: str
    key_start: int
    value_start: int
    value_end: int


class Document:
    """Parsed JSON text with the positions of its members."""

    def __init__(self, text: str, *, comments: bool) -> None:
        """Parse JSON text whose top level is an object. With `comments`, comments are allowed.

        Raises:
            ConfigError: the text is not JSON, or its top level is not an object.
        """
        self.text, self.comments = text, comments
        bare = " " + text[1:] if text.startswith("\ufeff") else text
        #: The text with comments replaced by blanks. In `strict`, trailing commas are replaced too.
        self.bare = _COMMENT.sub(partial(_blank, "/"), bare) if comments else bare
        self.strict = _TRAILING_COMMA.sub(partial(_blank, ","), self.bare) if comments else bare
        try:
            value = json.loads(self.strict, parse_constant=str)
        except json.JSONDecodeError as error:
            raise ConfigError(f"this is not JSON: {error.msg}", error.lineno) from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"this is not JSON that can be edited: {error}") from None
        if not isinstance(value, dict):
            raise ConfigError("the top level is not an object", 1)
        self.value: dict[str, Any] = value
        self.start = self.skip(0)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.is_one_line = "\n" not in text.strip()

    def skip(self, position: int) -> int:
        blanks = _BLANKS.match(self.strict, position)
        return blanks.end() if blanks else position

    def members(self, start: int) -> list[Member]:
        members, position = list[Member](), self.skip(start + 1)
        while self.strict[position] != "}":
            key, key_end = _DECODER.raw_decode(self.strict, position)
            value_start = self.skip(self.skip(key_end) + 1)
            _, value_end = _DECODER.raw_decode(self.strict, value_start)
            members.append(Member(key, position, value_start, value_end))
            position = self.skip(value_end)
            if self.strict[position] == ",":
                position = self.skip(position + 1)
        return members

    def member(self, start: int, key: str) -> Member | None:
        matches = [member for member in self.members(start) if member.key == key]
        if len(matches) > 1:
            raise ConfigError(f'"{key}" occurs twice', line_of(self.text, matches[1].key_start))
        return matches[0] if matches else None

    def container(self, key: str) -> Member | None:
        """Return the top-level member with this key, or None. Its value must be an object."""
        member = self.member(self.start, key)
        if member is not None and self.strict[member.value_start] != "{":
            raise ConfigError(f'"{key}" is not an object', line_of(self.text, member.key_start))
        return member

    def changed_to(self, text: str, expected: dict[str, Any]) -> str:
        """Check that a changed text parses to the expected value, and return the text."""
        if Document(text, comments=self.comments).value != expected:
            problem = "the entry cannot be changed without changing other parts of the file"
            raise ConfigError(problem)
        return text


def _blank(first: str, match: re.Match[str]) -> str:
    """Return the match with blanks in place of all characters except line breaks.

    A match that does not begin with `first` is returned unchanged.
    """
    return re.sub(r"[^\r\n]", " ", match[0]) if match[0].startswith(first) else match[0]


def _is_empty(text: str | None) -> bool:
    return text is None or not text.strip("\ufeff" + _WHITESPACE)


def read_entry(text: str, container: str, name: str, *, comments: bool) -> Any:  # noqa: ANN401 - JSON
    if _is_empty(text):
        return None
    document = Document(text, comments=comments)
    return document.value[container].get(name) if document.container(container) else None


def add_entry(
    text: str | None, container: str, name: str, entry: Mapping[str, Any], *, comments: bool
) -> str:
    """Return the text with `container.name` set to the entry. For a new file, pass None as text.

    >>> print(add_entry('{"a": 1}', "servers", "w", {"url": "u"}, comments=False))
    {"servers": {"w": {"url": "u"}}, "a": 1}

    Raises:
        ConfigError: the text cannot be parsed or edited safely.
    """
    if text is None or _is_empty(text):
        new = json.dumps({container: {name: entry}}, indent=2, ensure_ascii=False)
        return f"{text or ''}{new}\n"
    document = Document(text, comments=comments)
    outer = document.container(container)
    inner = document.member(outer.value_start, name) if outer else None
    entries = document.value.get(container, {})
    if inner is not None and entries[name] == entry:
        return text
    if outer is None:
        changed = _insert(document, document.start, container, {name: entry})
    elif inner is None:
        changed = _insert(document, outer.value_start, name, entry)
    else:
        value = _render(document, entry, _indent_at(text, inner.key_start))
        changed = text[: inner.value_start] + value + text[inner.value_end :]
    return document.changed_to(changed, {**document.value, container: {**entries, name: entry}})


def remove_entry(text: str, container: str, name: str, *, comments: bool) -> str:
    """Return the text without `container.name`, and without the container if that is then empty.

    Raises:
        ConfigError: the text cannot be parsed or edited safely.
    """
    if read_entry(text, container, name, comments=comments) is None:
        return text
    document = Document(text, comments=comments)
    expected, outer = {**document.value}, document.container(container)
    others = {key: value for key, value in expected.pop(container).items() if key != name}
    if outer is not None and others:
        expected[container] = others
        return document.changed_to(_cut(document, outer.value_start, name), expected)
    return document.changed_to(_cut(document, document.start, container), expected)


def _insert(document: Document, start: int, key: str, value: object) -> str:
    text, members, newline = document.text, document.members(start), document.newline
    before, rest = text[: start + 1], text[start + 1 :]
    if members:
        is_inline = "\n" not in text[start + 1 : members[0].key_start]
        indent, end = _indent_at(text, members[0].key_start), ","
    else:
        rest = rest.lstrip(_WHITESPACE)
        is_inline = start != document.start and document.is_one_line
        own = _indent_at(text, start)
        indent, end = own + _unit(document), newline + own
    if is_inline:
        inline = json.dumps(value, ensure_ascii=False)
        return f"{before}{json.dumps(key)}: {inline}{', ' if members else ''}{rest}"
    member = f"{json.dumps(key)}: {_render(document, value, indent)}"
    return f"{before}{newline}{indent}{member}{end}{rest}"


def _render(document: Document, value: object, indent: str) -> str:
    if document.is_one_line and document.value:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(document)).split("\n")
    return (document.newline + indent).join(lines)


def _unit(document: Document) -> str:
    members = document.members(document.start)
    lead = document.text[document.start + 1 : members[0].key_start] if members else ""
    indent = _indent_at(document.text, members[0].key_start) if "\n" in lead else ""
    return indent or _DEFAULT_INDENT


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _cut(document: Document, start: int, key: str) -> str:
    text, members = document.text, document.members(start)
    place = next(n for n, member in enumerate(members) if member.key == key)
    begin, end = members[place].key_start, members[place].value_end
    while text[begin - 1] in _WHITESPACE:
        begin -= 1
    if text[begin - 1] != document.bare[begin - 1]:
        # Keep the line break before the removed key, because it ends a comment.
        begin = members[place].key_start
    blanks = _BLANKS.match(document.bare, end)
    following = blanks.end() if blanks else end
    if document.bare[following] == ",":
        is_inline = text[begin - 1] == "{" and begin == members[place].key_start
        blank = " " if is_inline and text.startswith(" ", following + 1) else ""
        return text[:begin] + text[following + 1 + len(blank) :]
    if place:
        comma = document.bare.index(",", members[place - 1].value_end)
        return text[:comma] + text[comma + 1 : begin] + text[end:]
    if text[begin - 1] == "{" and not text[end:following].strip(_WHITESPACE):
        end = following
    return text[:begin] + text[end:]
