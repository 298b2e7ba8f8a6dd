"""Loads named SQL queries from `.sql` files, encodes their parameters, and creates ids."""

import os
import time
from binascii import hexlify
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import chain, count
from re import IGNORECASE
from re import compile as pattern
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import orjson

from waybook.core.ids import IdSource, is_id
from waybook.json_values import rfc3339
from waybook.store.columns import FRAGMENTS, JSON_COLUMNS, Table

_UUID_LENGTH = 36
_UUID = pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", IGNORECASE)
LAST_UUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


#: Creates the new ids of this process.
new_id = IdSource()


def new_uuid() -> str:
    """Return a new UUID. UUIDs sort by creation time."""
    time_part = f"{time.time_ns() // 1_000_000:012x}"
    chance = os.urandom(10).hex()
    variant = "89ab"[int(chance[0], 16) & 3]
    return f"{time_part[:8]}-{time_part[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


def is_uuid(text: str) -> bool:
    return len(text) == _UUID_LENGTH and _has_uuid_format(text)


@lru_cache(maxsize=16_384)
def _has_uuid_format(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


Value: TypeAlias = "str | int | float | bool | bytes | datetime | UUID | Rows | AsJson | Ids | None"
_Parameters: TypeAlias = list[bytes | None]

#: An insert is a prepared statement only if it has up to 8 rows or exactly 32 rows. This limits the
#: number of prepared statements.
PREPARED_ROW_COUNT = 8
BATCH_SIZE = 32

_MERGED_PLACE = "merged_rows"
#: Placeholder for the org of the transaction. The `.sql` files write it as `:org`.
ORG_PLACE = "org"

_PLACE = pattern(r"%\((\w+)\)s")
#: Matches the name of a shared SQL fragment. A name follows a single colon.
_PART = pattern(r"(?<!:):([a-z_]+)")
_ROWS_PLACE = pattern(r"\bvalues\s+%\((\w+)\)s")


@dataclass(slots=True)
class AsJson:
    """A value to store as JSON. None becomes SQL null."""

    value: object


@dataclass(slots=True)
class Rows:
    """The rows to insert: the value of the placeholder after `values` in an SQL `insert`."""

    rows: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Ids:
    ids: Iterable[str]


def first_value(rows: Sequence[Sequence[Any]]) -> Any:  # noqa: ANN401 - of any column type
    return rows[0][0] if rows else None


def first_column(rows: Iterable[Sequence[Any]]) -> list[Any]:
    return [row[0] for row in rows]


#: A row of a query, with a field for each column.
Row: TypeAlias = Any

#: A named tuple with one field per column. Its first field may be another named tuple, with the
#: first columns as its fields.
_RowClass: TypeAlias = type[tuple[Any, ...]]
_RowMaker: TypeAlias = Callable[[Sequence[Any]], tuple[Any, ...]]


def column_names(row: _RowClass) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(row, "_fields", ())
    nested = _nested_row(row)
    return names if nested is None else (*column_names(nested), *names[1:])


def _nested_row(row: _RowClass) -> _RowClass | None:
    first: object = next(iter(row.__annotations__.values()), None)
    return first if isinstance(first, type) and hasattr(first, "_fields") else None


@lru_cache(maxsize=1024)
def named_row(columns: tuple[bytes | None, ...]) -> _RowMaker:
    """Return a function that makes rows whose fields are named like the columns of a result."""
    names = [(column or b"").decode() for column in columns]
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc] # noqa: PYI024
    return partial(tuple.__new__, row)


def _row_maker(row: Any) -> _RowMaker:  # noqa: ANN401 - a class of named tuples
    make: _RowMaker = row._make
    nested = _nested_row(row)
    if not nested:
        return make
    make_nested, width = _row_maker(nested), len(column_names(nested))
    return lambda columns: make((make_nested(columns[:width]), *columns[width:]))


class _PreparedForm(NamedTuple):
    name: bytes | None
    text: bytes
    #: Without it, the fields of rows are named like the columns of the result.
    make_row: _RowMaker | None = None
    takes_org: bool = False
    merges: "Query | None" = None
    rows: int = 0


class Statement(NamedTuple):
    form: _PreparedForm
    parameters: _Parameters

    def __str__(self) -> str:
        return self.form.text.decode()


@lru_cache(maxsize=1024)
def raw_statement(text: str) -> Statement:
    return Statement(_PreparedForm(None, text.encode()), [])


class Query:
    """An SQL query with placeholders. A placeholder after `values` takes a list of rows.

    The text is parsed when the query is first used, because a process uses only a few of the
    queries that it loads.
    """

    text: str
    make_row: _RowMaker | None
    takes_org: bool
    #: Names of the placeholders in the order of their first use. The placeholder for the org is
    #: left out.
    places: tuple[str, ...]
    _listed: str | None
    _digest: str
    _plain: _PreparedForm

    def __init__(self, name: str, text: str, row: _RowClass | None = None) -> None:
        self.name = name
        self.row = row
        self._source = text
        self._forms: dict[int, _PreparedForm] = {}

    def __getattr__(self, attribute: str) -> Any:  # noqa: ANN401 - declared above
        # Python calls `__getattr__` only for attributes that are not set yet.
        if attribute not in Query.__annotations__:
            raise AttributeError(attribute)
        self._parse()
        return getattr(self, attribute)

    def _parse(self) -> None:
        self.text = expand_parts(self._source)
        self.make_row = _row_maker(self.row) if self.row else None
        places = dict.fromkeys(_PLACE.findall(self.text))
        self.takes_org = ORG_PLACE in places
        self.places = tuple(place for place in places if place != ORG_PLACE)
        listed = _ROWS_PLACE.search(self.text)
        self._listed = listed[1] if listed else None
        self._digest = sha256(self.text.encode()).hexdigest()[:8]
        self._plain = self._form(0, 0)

    def __call__(self, **values: Value) -> Statement:
        if self._listed is not None:
            (place,) = self.places
            listed = values[place]
            if type(listed) is not Rows:
                raise TypeError(f"the query {self.name} needs a value of type Rows")
            rows = listed.rows
            number = len(rows)
            parameters = _encode_parameters(rows[0] if number == 1 else chain.from_iterable(rows))
            form = self._forms.get(number) or self._form(number, len(rows[0]))
            return Statement(form, parameters)
        return Statement(self._plain, _encode_parameters(map(values.__getitem__, self.places)))

    def for_update(self, table: str) -> "Query":
        locked = f"{self.text}\n   for update of {table}"
        return Query(f"{self.name}_locked", locked, self.row)

    def merge(self, statements: Sequence[Statement]) -> Statement:
        if len(statements) == 1:
            return statements[0]
        parameters = list(chain.from_iterable([s.parameters for s in statements]))
        rows = sum([s.form.rows for s in statements])
        return Statement(self._form(rows, len(parameters) // rows), parameters)

    def _form(self, rows: int, width: int) -> _PreparedForm:
        form = self._forms.get(rows)
        if form is None:
            text = self._numbered(rows, width).encode()
            is_prepared = rows <= PREPARED_ROW_COUNT or rows == BATCH_SIZE
            suffix = f"_{rows}" if rows else ""
            name = f"wb_{self.name}_{self._digest}{suffix}".encode() if is_prepared else None
            merges = self if self._listed == _MERGED_PLACE else None
            form = _PreparedForm(name, text, self.make_row, self.takes_org, merges, rows)
            if is_prepared:
                self._forms[rows] = form
        return form

    def _numbered(self, rows: int, width: int) -> str:
        numbers = count(1)
        placeholders = {
            place: _rows_of(rows, width, numbers) if place == self._listed else f"${next(numbers)}"
            for place in self.places
        }
        placeholders[ORG_PLACE] = f"${next(numbers)}"
        return _PLACE.sub(lambda place: placeholders[place[1]], self.text)


def _rows_of(rows: int, width: int, numbers: Iterator[int]) -> str:
    row = range(width)
    return ", ".join(f"({', '.join(f'${next(numbers)}' for _ in row)})" for _ in range(rows))


_RowSpec: TypeAlias = _RowClass | tuple[_RowClass, str]


def load(name: str, **rows: _RowSpec) -> Mapping[str, Query]:
    """Return the queries in `store/NAME.sql`, by name.

    `rows` maps query names to row classes; rows of other queries have a field for each column of
    the result. In a tuple of a class and names, the first name is a field that holds an instance
    of the class, made from the first columns.
    """
    texts = _read(name)
    if unknown := rows.keys() - texts.keys():
        raise KeyError(f"store/{name}.sql has no query {sorted(unknown)}")
    classes = {query: _class_of(query, row) for query, row in rows.items()}
    return {query: Query(query, body, classes.get(query)) for query, body in texts.items()}


def _class_of(query: str, row: _RowSpec) -> _RowClass:
    if isinstance(row, type):
        return row
    nested, names = row
    made: _RowClass = namedtuple(query, names.split())  # type: ignore[misc] # noqa: PYI024 - no constant
    made.__annotations__ = {names.split()[0]: nested}
    return made


@cache
def _read(name: str) -> Mapping[str, str]:
    text = files("waybook.store").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    pieces = (piece.split("\n", 1) for piece in text.split("-- name: ")[1:])
    return {
        head.strip(): "\n".join(line for line in body.splitlines() if not line.startswith("--"))
        .strip()
        .rstrip(";")
        for head, body in pieces
    }


def expand_parts(body: str) -> str:
    return _PART.sub(
        lambda part: FRAGMENTS.get(part[1]) or expand_parts(_read("parts")[part[1]]), body
    )


def as_json_text(value: object) -> str:
    return orjson.dumps(value).decode()


def _encode_parameters(values: Iterable[Value]) -> _Parameters:
    """Encode Python values as SQL parameters in text format.

    Raises:
        TypeError: a value has an unsupported type.
        ValueError: a text contains a NUL character, at which the driver would cut it off.
    """
    encoded = [None if value is None else _ENCODERS[type(value)](value) for value in values]
    if b"\0" in b"".join(filter(None, encoded)):
        raise ValueError("a text contains a NUL character, which PostgreSQL cannot store")
    return encoded


class _Writers(dict[type, Callable[[Any], bytes | None]]):
    def __missing__(self, kind: type) -> Callable[[Any], bytes | None]:
        if not issubclass(kind, str):
            raise TypeError(f"the type {kind.__name__} is not supported as an SQL parameter")
        self[kind] = str.encode
        return str.encode


@lru_cache(maxsize=4096)
def _time(at: datetime) -> bytes:
    return rfc3339(at).encode()


def _ids(value: Ids) -> bytes:
    ids = [*value.ids]
    if not all(is_id(text) or is_uuid(text) for text in ids):
        raise ValueError("a list of ids contains a text that is not an id")
    return f"{{{','.join(ids)}}}".encode()


_ENCODERS = _Writers(
    {
        str: str.encode,
        int: b"%d".__mod__,
        float: b"%r".__mod__,
        bool: {True: b"true", False: b"false"}.__getitem__,
        bytes: lambda value: b"\\x" + hexlify(value),
        datetime: _time,
        UUID: lambda value: str(value).encode(),
        AsJson: lambda value: None if value.value is None else orjson.dumps(value.value),
        Ids: _ids,
    }
)


def new_row(table: Table, values: Mapping[str, Any], **extra_values: Value) -> tuple[Value, ...]:
    """Return the values of a new row in the order of the columns. Missing values are null."""
    return tuple(
        [
            extra_values[name]
            if name in extra_values
            else AsJson(values.get(name))
            if kind == "json"
            else values.get(name)
            for name, kind, _ in table.inserted
        ]
    )


def fill(query: Query, values: Mapping[str, Any], **extra_values: Value) -> Statement:
    """Return the query as a statement with these values. Missing values are null."""
    row_values = {
        place: AsJson(values.get(place)) if place in JSON_COLUMNS else values.get(place)
        for place in query.places
        if place not in extra_values
    }
    return query(**row_values, **extra_values)
