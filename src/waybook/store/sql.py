"""Named queries from `.sql` files, and values written into them as literals.

A call is one message of several statements, which the protocol allows only without parameters;
so values become literals here, and nowhere else. `literal` is total over the few types it knows
and refuses the rest.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from re import compile as pattern
from typing import TypeAlias
from uuid import UUID

Value: TypeAlias = "str | int | float | bool | bytes | datetime | UUID | Rows | AsJson | Ids | None"

_NAME = pattern(r"^-- name: (\w+)\n")
_PLACE = pattern(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class AsJson:
    """A value to be stored as JSON; null stays SQL's null."""

    value: object


@dataclass(frozen=True, slots=True)
class Rows:
    """Several rows for a `values` list."""

    rows: Iterable[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Ids:
    """A list of ids, as an array of uuid."""

    ids: Iterable[str]


class Query:
    """One named query: fixed text with places for literals."""

    def __init__(self, name: str, text: str) -> None:
        """Split the text at its places."""
        self.name = name
        parts = _PLACE.split(text.strip().rstrip(";"))
        self._texts = parts[::2]
        self.places = tuple(parts[1::2])

    def __call__(self, **values: Value) -> str:
        """The query with its values in place, ready to send."""
        told = [literal(values[place]) for place in self.places]
        return self._texts[0] + "".join(
            value + text for value, text in zip(told, self._texts[1:], strict=True)
        )


def load(name: str) -> Mapping[str, Query]:
    """The named queries of `store/NAME.sql`."""
    text = files("waybook.store").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    pieces = text.split("-- name: ")[1:]
    named = (piece.split("\n", 1) for piece in pieces)
    return {head.strip(): Query(head.strip(), _without_comments(body)) for head, body in named}


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("--"))


def literal(value: Value) -> str:
    """A value as an SQL literal.

    >>> literal("it's"), literal(None), literal(True), literal(3)
    ("'it''s'", 'null', 'true', '3')
    >>> literal(Rows([(1, "a"), (2, None)]))
    "(1, 'a'), (2, null)"
    """
    match value:
        case str():
            return quote(value)
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int() | float():
            return repr(value) if value >= 0 else f"({value!r})"
        case AsJson() | Ids() | Rows():
            return _compound(value)
        case _:
            return _plain(value)


def _plain(value: bytes | datetime | UUID) -> str:
    match value:
        case bytes():
            return f"'\\x{value.hex()}'"
        case datetime():
            return f"'{value.isoformat()}'"
        case UUID():
            return f"'{value}'"


def _compound(value: "Rows | AsJson | Ids") -> str:
    match value:
        case AsJson(inner):
            return "null" if inner is None else quote(as_json_text(inner))
        case Ids(ids):
            return "array[" + ", ".join(quote(i) for i in ids) + "]::uuid[]"
        case Rows(rows):
            return ", ".join("(" + ", ".join(literal(v) for v in row) + ")" for row in rows)


def quote(text: str) -> str:
    r"""A text as a literal, whatever is in it.

    >>> print(quote("a\\b'c"))
     E'a\\b''c'
    """
    if "\0" in text:
        raise ValueError("PostgreSQL keeps no NUL in a text")
    if "\\" in text:
        return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def as_json_text(value: object) -> str:
    """The one way we write JSON for keeping: compact, in the order given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
