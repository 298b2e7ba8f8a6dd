"""Values from outside, taken as they come: what is not of the form one hopes for is nothing."""

from collections.abc import Mapping, Sequence

Raw = Mapping[str, object]

EMPTY_OBJECT: Raw = {}


def as_object(value: object) -> Raw:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else EMPTY_OBJECT


def as_list(value: object) -> Sequence[object]:
    """The value, if it is a list; else an empty one."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """The value, if it is a text; a whole number is one too, since ids may be numbers.

    >>> as_text("j1"), as_text(17), as_text(""), as_text(True), as_text(["j1"])
    ('j1', '17', None, None, None)
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int and abs(value) < MAX_ID else None


#: Beyond this nobody counts ids, and spelling them out takes long.
MAX_ID = 1 << 64
