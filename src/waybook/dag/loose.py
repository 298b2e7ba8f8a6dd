"""Values from outside, taken as they come: what is not of the form one hopes for is nothing."""

from collections.abc import Mapping, Sequence

Raw = Mapping[str, object]

NO_RECORD: Raw = {}


def record(value: object) -> Raw:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else NO_RECORD


def items(value: object) -> Sequence[object]:
    """The value, if it is a list; else an empty one."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str | None:
    """The value, if it is a text; a whole number is one too, since ids may be numbers.

    >>> text("j1"), text(17), text(""), text(True), text(["j1"])
    ('j1', '17', None, None, None)
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int and abs(value) < LARGEST else None


#: Beyond this nobody counts ids, and spelling them out takes long.
LARGEST = 1 << 64
