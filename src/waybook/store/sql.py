"""Named queries from `.sql` files, and values written into them as literals.

A call is one message of several statements, which the protocol allows only without parameters;
so values become literals here, and nowhere else. `literal` is total over the few types it knows
and refuses the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from itertools import count
from re import compile as pattern
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

import orjson

Value: TypeAlias = "str | int | float | bool | bytes | datetime | UUID | Rows | AsJson | Ids | None"

#: Beyond this many rows a statement is sent as text: every number of rows is a text of its own.
MOST_PREPARED_ROWS = 4

_PLACE = pattern(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class AsJson:
    """A value to be stored as JSON; null stays SQL's null."""

    value: object


@dataclass(frozen=True, slots=True)
class Rows:
    """Several rows for a `values` list."""

    rows: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Ids:
    """A list of ids, as an array of uuid."""

    ids: Iterable[str]


class Query:
    """One named query: fixed text with places for values."""

    def __init__(self, name: str, text: str) -> None:
        """Split the text at its places."""
        self.name = name
        self._text = text.strip().rstrip(";")
        parts = _PLACE.split(self._text)
        self._texts = parts[::2]
        self._order = parts[1::2]
        #: The places, each once, in order of appearance.
        self.places = tuple(dict.fromkeys(self._order))
        self._digest = sha256(text.encode()).hexdigest()[:8]
        self._names: dict[tuple[int, ...], str] = {}

    def __call__(self, **values: Value) -> "Statement":
        """The query with its values."""
        return Statement(self, [values[place] for place in self.places])

    def locking(self, table: str) -> "Query":
        """The same query, locking the rows it finds in this table."""
        return Query(f"{self.name}_locked", f"{self._text}\n   for update of {table}")

    def with_literals(self, told: list[str]) -> str:
        """The text with these in the places."""
        by_place = dict(zip(self.places, told, strict=True))
        rest = (
            by_place[place] + text for place, text in zip(self._order, self._texts[1:], strict=True)
        )
        return self._texts[0] + "".join(rest)

    def prepared_name(self, shape: tuple[int, ...]) -> str:
        """The name this query is prepared under; another text has another name."""
        name = self._names.get(shape)
        if name is None:
            name = "_".join([f"wb_{self.name}_{self._digest}", *map(str, shape)])
            self._names[shape] = name
        return name


class Statement:
    """A query with its values: to be sent as text, or to be executed as prepared before."""

    __slots__ = ("name", "query", "values")

    def __init__(self, query: Query, values: list[Value]) -> None:
        """Find the name to prepare it under: None if it has too many rows to be worth it."""
        self.query = query
        self.values = values
        shape = tuple([len(value.rows) for value in values if type(value) is Rows])
        self.name = (
            None if shape and max(shape) > MOST_PREPARED_ROWS else query.prepared_name(shape)
        )

    def __str__(self) -> str:
        """The statement as one text."""
        return self.query.with_literals([literal(value) for value in self.values])

    def prepare(self) -> str:
        """The text that prepares it."""
        numbers = count(1)
        places = [_numbered(value, numbers) for value in self.values]
        return f"prepare {self.name} as {self.query.with_literals(places)}"

    def execute(self) -> str:
        """The text that executes it once it is prepared."""
        told = ", ".join([ARGUMENTS.get(type(v), literal)(v) for v in self.values])
        return f"execute {self.name}({told})" if told else f"execute {self.name}"


def _numbered(value: Value, numbers: Iterator[int]) -> str:
    if isinstance(value, Rows):
        return ", ".join(
            "(" + ", ".join(f"${next(numbers)}" for _ in row) + ")" for row in value.rows
        )
    return f"${next(numbers)}"


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
    write = WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, str):  # a word of an enumeration
        return quote(str(value))
    raise TypeError(f"{type(value).__name__} is not written into SQL")


def _number(value: float) -> str:
    return repr(value) if value >= 0 else f"({value!r})"


def _rows(value: Rows) -> str:
    return ", ".join(["(" + ", ".join([literal(v) for v in row]) + ")" for row in value.rows])


def _json(value: AsJson) -> str:
    return "null" if value.value is None else quote(as_json_text(value.value))


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
    return orjson.dumps(value).decode()


#: How each type is written. Words of an enumeration are written as texts.
WRITERS: Mapping[type, Callable[[Any], str]] = {
    str: quote,
    int: _number,
    float: _number,
    NoneType: lambda _: "null",
    bool: lambda value: "true" if value else "false",
    bytes: lambda value: f"'\\x{value.hex()}'",
    datetime: lambda value: f"'{value.isoformat()}'",
    UUID: lambda value: f"'{value}'",
    AsJson: _json,
    Ids: lambda value: "array[" + ", ".join([quote(i) for i in value.ids]) + "]::uuid[]",
    Rows: _rows,
}


def _flat(value: Rows) -> str:
    return ", ".join([WRITERS.get(type(v), literal)(v) for row in value.rows for v in row])


#: How each type is written as an argument of a prepared statement.
ARGUMENTS: Mapping[type, Callable[[Any], str]] = {**WRITERS, Rows: _flat}
