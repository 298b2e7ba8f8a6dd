"""Query parameters, which are sent separately from the SQL and arrive unchanged."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from uuid import UUID

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format

from postgres_servers import ServerDatabase
from waybook.store.driver.queries import AsJson, Ids, Query, Rows, Statement, Value

#: Each example is a query to a server, so use few examples.
FEW = settings(max_examples=60)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
NASTY = st.text(
    st.sampled_from("'\"\\$%(){};:-/*\n\r\tEeUu&xnN1é☃𐍈\u2028\u202e\ufeff"), max_size=40
)
ANY_TEXT = TEXTS | NASTY
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TIMES = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - as above
    timezones=st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours))),
)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def connection(shared_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shared_place.app_dsn, autocommit=True) as opened:
        opened.execute("set timezone = 'UTC'")
        yield opened


def returned(connection: psycopg.Connection, value: Value, kind: str) -> object:
    """Send the value between two other parameters; return the value that the server sends back."""
    query = Query("q", f"select %(before)s, %(value)s::{kind}, %(after)s")
    return answered(connection, query(before="before", value=value, after="after"))[0][1]


def answered(connection: psycopg.Connection, statement: Statement) -> list[tuple[object, ...]]:
    """Return the rows of a statement whose parameters are sent separately from the SQL."""
    text, parameters = statement.form.text, statement.parameters
    result = connection.pgconn.exec_params(text, parameters, result_format=Format.BINARY)
    assert result.status == ExecStatus.TUPLES_OK, result.error_message
    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


@example("it's")
@example("\\")
@example("\\'; drop table plan; --")
@example("$$ $1 %s %(a)s %% {} :name ?")
@example("E'\\x41'")
@example("'" * 7)
@example("\\" * 7 + "'")
@FEW
@given(ANY_TEXT)
def test_database_returns_a_text_unchanged(connection: psycopg.Connection, text: str) -> None:
    assert returned(connection, text, "text") == text


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", INTEGERS),
        ("double precision", st.sampled_from([-0.0, 1.7976931348623157e308]) | FLOATS),
        ("bytea", st.binary()),
        ("timestamptz", TIMES),
        ("uuid", st.uuids()),
        ("boolean", st.none() | st.booleans()),
    ],
)
@FEW
@given(data=st.data())
def test_database_returns_a_value_unchanged(
    connection: psycopg.Connection, data: st.DataObject, kind: str, values: st.SearchStrategy[Value]
) -> None:
    value = data.draw(values)
    assert returned(connection, value, kind) == value


@FEW
@given(JSON)
def test_database_returns_json_byte_for_byte(connection: psycopg.Connection, value: object) -> None:
    result = returned(connection, AsJson(value), "json")
    assert json.dumps(result) == json.dumps(value)


@FEW
@given(st.lists(st.tuples(ANY_TEXT, INTEGERS), min_size=1, max_size=4))
def test_database_returns_rows_in_the_order_sent(
    connection: psycopg.Connection, rows: list[tuple[str, int]]
) -> None:
    query = Query("q", "select * from (values %(rows)s) as v (a, b)")
    texts = [(text, str(number)) for text, number in rows]
    assert answered(connection, query(rows=Rows(texts))) == texts


@FEW
@given(st.lists(st.uuids(), max_size=4))
def test_database_returns_a_uuid_array_unchanged(
    connection: psycopg.Connection, ids: list[UUID]
) -> None:
    assert returned(connection, Ids([str(i) for i in ids]), "uuid[]") == ids


def test_query_parameter_with_a_nul_character_raises_value_error() -> None:
    with pytest.raises(ValueError, match="NUL"):
        Query("q", "select %(a)s")(a="a\0b")


def test_invalid_id_in_a_query_parameter_raises_value_error() -> None:
    with pytest.raises(ValueError, match="not an id"):
        Query("q", "select %(a)s")(a=Ids(["a,b"]))


def test_query_parameter_of_an_unsupported_type_raises_type_error() -> None:
    with pytest.raises(TypeError, match="type set is not supported"):
        Query("q", "select %(a)s")(a={1})  # type: ignore[arg-type]  # on purpose
