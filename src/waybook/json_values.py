"""JSON value types, JSON in texts, and timestamps in RFC 3339 format."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Body = dict[str, Json]

_FENCED = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)


@lru_cache(maxsize=4096)
def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def format_time(at: datetime | None) -> str | None:
    return rfc3339(at) if at else None


def non_empty(**fields: Json) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


@lru_cache
def _field_names(names: str) -> tuple[tuple[str, str], ...]:
    words = ((name, name.split("_")) for name in names.split())
    return tuple((name, "".join([first, *map(str.title, rest)])) for name, (first, *rest) in words)


def fields_of(row: object, names: str) -> Body:
    """Return attributes as fields of JSON, with names in camel case and times as text.

    >>> fields_of(datetime(2030, 1, 31), "year month")
    {'year': 2030, 'month': 1}
    """
    fields: Body = {}
    for name, field in _field_names(names):
        value = getattr(row, name)
        if isinstance(value, datetime):
            value = rfc3339(value)
        fields[field] = [*value] if isinstance(value, tuple) else value
    return fields


def children(value: object) -> Iterable[Any]:
    """Return the values within a list or an object."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's parser takes although they are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


def parse_content(text: str) -> Json:
    r"""Return the JSON object or array that a text contains, or else the text.

    >>> parse_content('{"a": 1}'), parse_content("12"), parse_content("```json\n[1]\n```")
    ({'a': 1}, '12', [1])
    """
    fenced = _FENCED.match(text)
    try:
        value: Json = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text
