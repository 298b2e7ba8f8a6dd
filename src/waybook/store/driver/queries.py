"""Named queries from `.sql` files, and values on their way into them.

Values travel beside the text, never in it: there is nothing to quote. `encode_parameters` knows a
few types and refuses the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from itertools import chain, count
from re import compile as pattern
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import orjson

from waybook.json_values import rfc3339
from waybook.store.driver.ids import is_id

Value: TypeAlias = "str | int | float | bool | bytes | datetime | UUID | Rows | AsJson | Ids | None"
#: What is sent: a value as text, or null.
Parameters: TypeAlias = list[bytes | None]

#: Every number of rows is a statement of its own; prepared are those for a few, and for a batch.
PREPARED_ROW_COUNT = 4
BATCH_SIZE = 32

_PLACE = pattern(r"%\((\w+)\)s")
#: A part of `parts.sql`, as `psql` would name it; a cast has two colons.
_PART = pattern(r"(?<!:):([a-z_]+)")
_ROWS_PLACE = pattern(r"\bvalues\s+%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class AsJson:
    """A value to be stored as JSON; null stays SQL's null."""

    value: object


@dataclass(frozen=True, slots=True)
class Rows:
    """Several rows for a `values` list; the protocol takes 65,535 values in all."""

    rows: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Ids:
    """A list of ids, as an array of uuid."""

    ids: Iterable[str]


class PreparedForm(NamedTuple):
    """A query's text with numbered places, and the name to prepare it under, if it is worth it."""

    name: bytes | None
    text: bytes


class Statement(NamedTuple):
    """A query with its values, ready to be sent."""

    form: PreparedForm
    parameters: Parameters

    def __str__(self) -> str:
        """The text, with numbers in its places."""
        return self.form.text.decode()


def raw_statement(text: str) -> Statement:
    """A statement that has no values and is not worth preparing."""
    return Statement(PreparedForm(None, text.encode()), [])


class Query:
    """One named query: fixed text with places for values."""

    def __init__(self, name: str, text: str) -> None:
        """Find the places; one behind `values` is for a list of rows."""
        self.name = name
        #: The text as the driver reads it, for what is not sent in a message.
        self.text = text
        #: The places, each once, in order of appearance.
        self.places = tuple(dict.fromkeys(_PLACE.findall(self.text)))
        listed = _ROWS_PLACE.search(self.text)
        self._listed = listed[1] if listed else None
        self._digest = sha256(text.encode()).hexdigest()[:8]
        self._forms: dict[tuple[int, int], PreparedForm] = {}
        self._plain = self._form(0, 0)

    def __call__(self, **values: Value) -> Statement:
        """The query with its values."""
        if self._listed is not None:
            return self._with_rows(values)
        return Statement(self._plain, encode_parameters(map(values.__getitem__, self.places)))

    def for_update(self, table: str) -> "Query":
        """The same query, locking the rows it finds in this table."""
        return Query(f"{self.name}_locked", f"{self.text}\n   for update of {table}")

    def _with_rows(self, values: Mapping[str, Value]) -> Statement:
        (place,) = self.places
        listed = values[place]
        if not isinstance(listed, Rows):
            raise TypeError(f"{self.name} takes rows")
        rows = listed.rows
        told = encode_parameters(chain.from_iterable(rows))
        return Statement(self._form(len(rows), len(rows[0])), told)

    def _form(self, rows: int, width: int) -> PreparedForm:
        found = self._forms.get((rows, width))
        if found is None:
            found = PreparedForm(self._prepared_name(rows), self._numbered(rows, width).encode())
            if found.name is not None:
                self._forms[rows, width] = found
        return found

    def _prepared_name(self, rows: int) -> bytes | None:
        """The name this query is prepared under; another text has another name."""
        if rows > PREPARED_ROW_COUNT and rows != BATCH_SIZE:
            return None
        return f"wb_{self.name}_{self._digest}{f'_{rows}' if rows else ''}".encode()

    def _numbered(self, rows: int, width: int) -> str:
        numbers = count(1)
        told = {
            place: _rows_of(rows, width, numbers) if place == self._listed else f"${next(numbers)}"
            for place in self.places
        }
        return _PLACE.sub(lambda place: told[place[1]], self.text)


def _rows_of(rows: int, width: int, numbers: Iterator[int]) -> str:
    row = range(width)
    return ", ".join(f"({', '.join(f'${next(numbers)}' for _ in row)})" for _ in range(rows))


def load(name: str) -> Mapping[str, Query]:
    """The named queries of `store/NAME.sql`, with the parts they share with others."""
    return {named: Query(named, expand_parts(body)) for named, body in _read(name).items()}


@cache
def _read(name: str) -> Mapping[str, str]:
    """What stands under each name in `store/NAME.sql`."""
    text = files("waybook.store").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    pieces = (piece.split("\n", 1) for piece in text.split("-- name: ")[1:])
    return {head.strip(): _without_comments(body).strip().rstrip(";") for head, body in pieces}


def expand_parts(body: str) -> str:
    """A text with the parts of `parts.sql` in their places; a part may have parts itself.

    Raises:
        KeyError: there is no such part.
    """
    return _PART.sub(lambda part: expand_parts(_read("parts")[part[1]]), body)


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("--"))


def as_json_text(value: object) -> str:
    """The one way we write JSON for keeping: compact, in the order given."""
    return orjson.dumps(value).decode()


def encode_parameters(values: Iterable[Value]) -> Parameters:
    """Values as the server takes them.

    Raises:
        TypeError: a value of a type nobody has thought of.
        ValueError: a text with a NUL, which the driver would cut off there.
    """
    told = [None if value is None else ENCODERS[type(value)](value) for value in values]
    if b"\0" in b"".join(filter(None, told)):
        raise ValueError("PostgreSQL keeps no NUL in a text")
    return told


class _Writers(dict[type, Callable[[Any], bytes | None]]):
    """How each type is written. Words of an enumeration are written as texts."""

    def __missing__(self, kind: type) -> Callable[[Any], bytes | None]:
        if not issubclass(kind, str):
            raise TypeError(f"{kind.__name__} is not written to the database")
        self[kind] = str.encode
        return str.encode


@lru_cache(maxsize=4096)
def _time(at: datetime) -> bytes:
    """A time; kept, for a call writes the same moment many times over."""
    return rfc3339(at).encode()


def _ids(value: Ids) -> bytes:
    ids = [*value.ids]
    if not all(map(is_id, ids)):
        raise ValueError("a list of ids takes nothing but ids")
    return f"{{{','.join(ids)}}}".encode()


ENCODERS = _Writers(
    {
        str: str.encode,
        int: b"%d".__mod__,
        float: lambda value: repr(value).encode(),
        bool: {True: b"true", False: b"false"}.__getitem__,
        bytes: lambda value: b"\\x" + value.hex().encode(),
        datetime: _time,
        UUID: lambda value: str(value).encode(),
        AsJson: lambda value: None if value.value is None else orjson.dumps(value.value),
        Ids: _ids,
    }
)
