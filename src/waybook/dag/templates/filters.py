"""Filters and comparisons for templates.

They accept values of all types and never raise an error.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from waybook.conditions.values import Json
from waybook.dag.templates.json_markdown import (
    as_json,
    cell,
    heading,
    is_list,
    json_to_markdown,
    to_text,
)


def iterate(value: Json, parts: int = 0) -> Sequence[Json]:
    """Return the items of a template loop: list items, mapping keys, or the single value.

    >>> iterate({"a": 1}), iterate({"a": 1}, 2), iterate("b", 2)
    (('a',), [['a', 1]], [['b', None]])
    """
    if parts:
        items = pairs(value) if isinstance(value, dict) else iterate(value)
        return [_parted(item, parts) for item in items]
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value)
    return value if is_list(value) else (value,)


def _parted(item: Json, parts: int) -> Sequence[Json]:
    values = list(item[:parts]) if is_list(item) else [item]
    return values + [None] * (parts - len(values))


def default(value: Json, instead: Json) -> Json:
    return instead if value is None or value in ("", [], {}, ()) else value


def join(value: Json, between: Json = "", field: Json = None) -> str:
    items = (_field(item, field) for item in iterate(value))
    return to_text(between).join(map(to_text, items))


def _field(item: Json, field: Json) -> Json:
    if field is None:
        return item
    return item.get(to_text(field)) if isinstance(item, dict) else None


def length(value: Json) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def first(value: Json) -> Json:
    return next(iter(value), None) if isinstance(value, list | tuple | dict) else value


def last(value: Json) -> Json:
    return next(reversed(value), None) if isinstance(value, list | tuple | dict) else value


def pairs(value: Json) -> Sequence[Json]:
    return [[key, inner] for key, inner in value.items()] if isinstance(value, dict) else []


def _level(value: Json) -> int:
    return value if isinstance(value, int) else 2


def is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


DEEP_FILTERS: Mapping[str, Callable[..., Json]] = MappingProxyType(
    {
        "cell": cell,
        "heading": lambda value, level=2: heading(to_text(value), _level(level)),
        "items": pairs,
        "join": join,
        "lower": lambda value: to_text(value).lower(),
        "markdown": lambda value, level=2: json_to_markdown(value, _level(level)),
        "title": lambda value: to_text(value).title(),
        "tojson": as_json,
        "trim": lambda value: to_text(value).strip(),
        "upper": lambda value: to_text(value).upper(),
    }
)
SHALLOW_FILTERS: Mapping[str, Callable[..., Json]] = MappingProxyType(
    {
        "default": default,
        "first": first,
        "last": last,
        "length": length,
    }
)
TESTS: Mapping[str, Callable[[Json], bool]] = MappingProxyType(
    {
        "defined": lambda value: value is not None,
        "list": is_list,
        "mapping": lambda value: isinstance(value, dict),
        "none": lambda value: value is None,
        "number": is_number,
        "string": lambda value: isinstance(value, str),
    }
)


def compare(left: Json, operator: str, right: Json) -> bool:
    """Return whether a comparison is true. Values that cannot be compared give False.

    >>> compare(2, "lt", 3), compare("2", "lt", 3), compare("a", "in", ["a"])
    (True, False, True)
    """
    match operator:
        case "eq":
            return left == right
        case "ne":
            return left != right
        case "in":
            return _contains(right, left)
        case "notin":
            return not _contains(right, left)
    first, second = (left, right) if operator.startswith("lt") else (right, left)
    return _in_order(first, second) or (operator.endswith("eq") and left == right)


def _contains(container: Json, value: Json) -> bool:
    if isinstance(container, str | dict):
        return isinstance(value, str) and value in container
    return is_list(container) and value in container


def _in_order(first: Json, second: Json) -> bool:
    if isinstance(first, str) and isinstance(second, str):
        return first < second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first < second
    return False
