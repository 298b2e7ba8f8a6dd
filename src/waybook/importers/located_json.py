"""JSON in which each object knows its line number, so that errors can name the line."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONObject  # type: ignore[attr-defined]  # missing in the stubs
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # missing in the stubs
from typing import Any, Final

from waybook.importers.steps import at_line

MAX_DEPTH = 40
#: Characters that JSON can contain, but PostgreSQL cannot store.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class LocatedObject(dict[str, Any]):
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
    """Parse JSON text. `first_line` is the line of the file in which the text begins."""
    try:
        return _Decoder(text, first_line).decode(text)
    except JSONDecodeError as error:
        raise at_line(first_line + error.lineno - 1, f"this is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        message = "this JSON is nested too deeply, or has too long a number"
        raise at_line(first_line, message) from None


def read_json_lines(text: str) -> Iterator[LocatedObject]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = read_json(line.strip(), number)
            if not isinstance(value, LocatedObject):
                raise at_line(number, "this is not a JSON object")
            yield value


def text_field(task: LocatedObject, name: str) -> str:
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
    value = text_field(task, name).strip()
    if not value:
        raise at_line(task.line, f"this task has no {name}")
    return value


def key_field(task: LocatedObject, name: str = "id") -> str:
    value = task.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise at_line(task.line, f"this task has no {name}")
    return str(value).strip()


def list_field(task: LocatedObject, name: str) -> list[Any]:
    value = task.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise at_line(task.line, f"{name} is not a list")
    return value
