"""Minimal edits of JSON text: add, replace or remove one named entry of an object.

All other bytes stay unchanged, including comments, which some clients allow.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed JSON text with the positions of its members.

    In `bare`, comments are replaced by blanks. In `strict`, trailing commas are replaced too.
    """

    text: str
    bare: str
    strict: str
    value: dict[str, Any]

    @property
    def start(self) -> int:
        return self.skip(0)

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
        """Return the top-level member with this key, if its value is an object."""
        member = self.member(self.start, key)
        if member is not None and self.strict[member.value_start] != "{":
            raise ConfigError(f'"{key}" is not an object', line_of(self.text, member.key_start))
        return member


def parse(text: str, *, comments: bool) -> Document:
    """Parse JSON text whose top level is an object. With `comments`, comments are allowed.

    Raises:
        ConfigError: the text is not JSON, or its top level is not an object.
    """
    bare = " " + text[1:] if text.startswith("\ufeff") else text
    bare = _COMMENT.sub(_blank("/"), bare) if comments else bare
    strict = _TRAILING_COMMA.sub(_blank(","), bare) if comments else bare
    try:
        value = json.loads(strict, parse_constant=str)
    except json.JSONDecodeError as error:
        raise ConfigError(f"this is not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is not JSON that can be edited: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError("the top level is not an object", 1)
    return Document(text, bare, strict, value)


def _blank(first: str) -> Callable[[re.Match[str]], str]:
    """Return a callback for `re.sub` that blanks out only the matches that begin with `first`."""
    return lambda match: (
        re.sub(r"[^\r\n]", " ", match[0]) if match[0].startswith(first) else match[0]
    )


def read_entry(text: str, container: str, name: str, *, comments: bool) -> Any:  # noqa: ANN401 - JSON
    if not text.strip("\ufeff" + _WHITESPACE):
        return None
    document = parse(text, comments=comments)
    outer = document.container(container)
    return None if outer is None else document.value[container].get(name)


def add_entry(
    text: str | None, container: str, name: str, entry: Mapping[str, Any], *, comments: bool
) -> str:
    """Return the text with `container.name` set to the entry. For a new file, pass None as text.

    >>> print(add_entry('{"a": 1}', "servers", "w", {"url": "u"}, comments=False))
    {"servers": {"w": {"url": "u"}}, "a": 1}

    Raises:
        ConfigError: the text cannot be parsed or edited safely.
    """
    if text is None or not text.strip("\ufeff" + _WHITESPACE):
        return (
            (text or "")
            + json.dumps({container: {name: entry}}, indent=2, ensure_ascii=False)
            + "\n"
        )
    document = parse(text, comments=comments)
    outer = document.container(container)
    if outer is None:
        changed = _insert(document, document.start, container, {name: entry})
    else:
        inner = document.member(outer.value_start, name)
        if inner is None:
            changed = _insert(document, outer.value_start, name, entry)
        elif document.value[container][name] == entry:
            return text
        else:
            value = _render(document, entry, _indent_at(text, inner.key_start))
            changed = text[: inner.value_start] + value + text[inner.value_end :]
    entries = {**document.value.get(container, {}), name: entry}
    return _checked(changed, {**document.value, container: entries}, comments=comments)


def remove_entry(
    text: str, container: str, name: str, *, comments: bool, before: str | None = None
) -> str:
    """Return the text without `container.name`, and without the container if that is then empty.

    If `before` and the text differ only by this entry, `before` is returned unchanged.

    Raises:
        ConfigError: the text cannot be parsed or edited safely.
    """
    entry = read_entry(text, container, name, comments=comments)
    if entry is None:
        return text
    if before is not None and _is_result_of_adding(
        text, before, container, name, comments=comments
    ):
        return before
    document = parse(text, comments=comments)
    others = {key: value for key, value in document.value[container].items() if key != name}
    expected = {**document.value, container: others}
    outer = document.container(container)
    if outer is None:
        return text
    start, key = (outer.value_start, name) if others else (document.start, container)
    if not others:
        del expected[container]
    return _checked(_cut(document, start, key), expected, comments=comments)


def _is_result_of_adding(
    text: str, before: str, container: str, name: str, *, comments: bool
) -> bool:
    try:
        if read_entry(before, container, name, comments=comments) is not None:
            return False
        entry = read_entry(text, container, name, comments=comments)
        return add_entry(before, container, name, entry, comments=comments) == text
    except ConfigError:
        return False


def _checked(changed: str, expected: dict[str, Any], *, comments: bool) -> str:
    """Check that the changed text parses to the expected value, and return the text."""
    if parse(changed, comments=comments).value != expected:
        raise ConfigError("the entry cannot be changed without changing other parts of the file")
    return changed


def _insert(document: Document, start: int, key: str, value: object) -> str:
    text, members = document.text, document.members(start)
    newline = "\r\n" if "\r\n" in text else "\n"
    own = _indent_at(text, start)
    if members:
        lead = text[start + 1 : members[0].key_start]
        if "\n" in lead:
            indent = _indent_at(text, members[0].key_start)
            member = f"{json.dumps(key)}: {_render(document, value, indent)}"
            return f"{text[: start + 1]}{newline}{indent}{member},{text[start + 1 :]}"
        member = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return f"{text[: start + 1]}{member}, {text[start + 1 :]}"
    end = start + 1 + len(text[start + 1 :]) - len(text[start + 1 :].lstrip(_WHITESPACE))
    if start != document.start and "\n" not in text.strip():
        member = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return f"{text[: start + 1]}{member}{text[end:]}"
    indent = own + _unit(document)
    member = f"{newline}{indent}{json.dumps(key)}: {_render(document, value, indent)}{newline}{own}"
    return f"{text[: start + 1]}{member}{text[end:]}"


def _render(document: Document, value: object, indent: str) -> str:
    if "\n" not in document.text.strip() and document.value:
        return json.dumps(value, ensure_ascii=False)
    newline = "\r\n" if "\r\n" in document.text else "\n"
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(document)).split("\n")
    return (newline + indent).join(lines)


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
