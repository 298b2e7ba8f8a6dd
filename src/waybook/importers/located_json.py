"""JSON whose objects have a line number, so that errors about their content name a line."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONObject  # type: ignore[attr-defined]  # missing in the stubs
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # missing in the stubs
from typing import Any, Final

from waybook.importers.steps import at_line

MAX_DEPTH = 40
#: Characters that JSON can escape, but PostgreSQL cannot store as text.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class LocatedObject(dict[str, Any]):
    """JSON object with the number of the line in which it begins."""

    line: int = 1


class _Decoder(JSONDecoder):
    def __init__(self, text: str, first_line: int) -> None:
        super().__init__(strict=False)
        self._breaks = [place for place, char in enumerate(text) if char == "\n"]
        self._first_line = first_line
        self._depth = 0
        self.parse_object = self._object
        self.scan_once = py_make_scanner(self)

    def _object(self, start: tuple[str, int], *rest: Any) -> tuple[LocatedObject, int]:  # noqa: ANN401
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError
        value, end = JSONObject(start, *rest)
        self._depth -= 1
        located = LocatedObject(value)
        located.line = self._first_line + bisect_right(self._breaks, start[1] - 1)
        return located, end


def read_json(text: str, first_line: int = 1) -> Any:  # noqa: ANN401 - JSON
    """Return the parsed JSON text; `first_line` is the line of the file in which the text begins.

    Raises:
        InvalidInput: the text is not JSON, or is nested too deeply; the error names the line.
    """
    try:
        return _Decoder(text, first_line).decode(text)
    except JSONDecodeError as error:
        raise at_line(first_line + error.lineno - 1, f"this is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        message = "this JSON is nested too deeply, or has too long a number"
        raise at_line(first_line, message) from None


def read_json_lines(text: str) -> Iterator[LocatedObject]:
    """Yield the objects of JSON Lines; empty lines are skipped.

    Raises:
        InvalidInput: a line is not a JSON object.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = read_json(line.strip(), number)
            if not isinstance(value, LocatedObject):
                raise at_line(number, "this is not a JSON object")
            yield value


def text_field(task: LocatedObject, name: str) -> str:
    """Return a text field of an object; an empty text if the field is missing or null.

    Raises:
        InvalidInput: the value is not a text, or contains characters that cannot be stored.
    """
    value = task.get(name)
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise at_line(task.line, f"{name} is not a text")
    if _UNSTORABLE.search(value):
        problem = "contains a NUL character, or half a character (a lone surrogate)"
        raise at_line(task.line, f"{name} {problem}; remove it")
    return value


def required_text(task: LocatedObject, name: str) -> str:
    """Return a required text field of an object.

    Raises:
        InvalidInput: the value is missing, empty or not a text.
    """
    value = text_field(task, name).strip()
    if not value:
        raise at_line(task.line, f"this task has no {name}")
    return value


def key_field(task: LocatedObject, name: str = "id") -> str:
    """Return an identifier, which may be a number or a text.

    Raises:
        InvalidInput: the identifier is missing, or is neither a number nor a text.
    """
    value = task.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise at_line(task.line, f"this task has no {name}")
    return str(value).strip()


def list_field(task: LocatedObject, name: str) -> list[Any]:
    """Return a list field of an object; an empty list if the field is missing or null.

    Raises:
        InvalidInput: the value is not a list.
    """
    value = task.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise at_line(task.line, f"{name} is not a list")
    return value
