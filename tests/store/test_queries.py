"""Named SQL queries: each is used, and matches the migrated schema."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from postgres_servers import ServerDatabase
from waybook.store.driver.queries import PREPARED_ROW_COUNT, Query, Rows, column_names, load

SOURCE = Path(str(files("waybook")))
#: Files with queries that the database owner executes in maintenance operations. The tests of these
#: operations cover the queries.
OPERATOR = frozenset(
    f"maintenance/{name}"
    for name in (
        *("archived_plans", "archived_runs", "backup", "citus", "erasure"),
        *("owner", "restore", "retention", "user_erasure"),
    )
)
#: Queries that only the database owner runs, from files that also contain queries of the server.
OPERATOR_QUERIES = frozenset(
    {
        *("add_org", "orgs", "review_policy"),
        *("lock", "limit_waiting", "exists", "create_table", "done", "record", "role_exists"),
        *("create_role", "local_org", "add_vector_extension", "lacks_vectors"),
        *("create_vectors", "lacks_maintenance_role", "has_maintenance_role"),
        *("create_maintenance_role", "must_join", "join_maintenance_role", "grant_maintenance"),
    }
)
#: Queries that need pgvector, covered by `test_pgvector`.
PGVECTOR_QUERIES = frozenset(
    {"insert_vectors", "nearest_vectors", "nearest_vectors_in_plan", "without_vectors"}
)
#: Files whose queries the source selects by a name in a variable, so that `mentions` does not find
#: their uses.
BY_NAME = frozenset(
    f"maintenance/{name}" for name in ("archived_plans", "archived_runs", "import_rows", "migrate")
)

#: File with fragments that several queries share, instead of queries.
NO_QUERIES = frozenset({"parts"})
STORE = SOURCE / "store"
FILES = sorted(
    {
        path.relative_to(STORE).with_suffix("").as_posix()
        for path in STORE.rglob("*.sql")
        if path.parent.name != "migrations"
    }
    - NO_QUERIES
)

_COLUMNS = re.compile(r"(?:insert into \w+|as v)\s*\(([^)]*)\)")
_PLACE = re.compile(r"%\((\w+)\)s")


def prepared(file: str, name: str) -> str:
    """Return the query with numbered parameters; a parameter for many rows becomes a single row."""
    text = load(file)[name].text
    columns = _COLUMNS.search(text)
    numbers = count(1)

    def parameter(place: re.Match[str]) -> str:
        if place[1] not in {"rows", "merged_rows"}:
            return f"${next(numbers)}"
        assert columns is not None
        return "(" + ", ".join(f"${next(numbers)}" for _ in columns[1].split(",")) + ")"

    return _PLACE.sub(parameter, text)


@pytest.mark.parametrize("file", [file for file in FILES if file not in OPERATOR])
def test_every_named_query_can_be_prepared_in_the_migrated_schema(
    shared_place: ServerDatabase, file: str
) -> None:
    with psycopg.connect(shared_place.app_dsn, autocommit=True) as connection:
        if shared_place.server.role:
            connection.execute(f"set role {shared_place.server.role}".encode())
        for name in load(file).keys() - OPERATOR_QUERIES - PGVECTOR_QUERIES:
            connection.execute(f"prepare fits_{name} as {prepared(file, name)}".encode())
            row = row_class(file, name)
            assert row is None or columns_of(connection, f"fits_{name}") == column_names(row), name


def row_class(file: str, name: str) -> Any:  # noqa: ANN401 - a named tuple
    """Return the class of the rows that a query returns, if it has one."""
    module = import_module(f"waybook.store.{file.replace('/', '.')}")
    queries: Mapping[str, Query] = getattr(module, "SQL", {})
    return queries[name].row if name in queries else None


def columns_of(connection: psycopg.Connection, prepared_name: str) -> tuple[str, ...]:
    """Return the names of the columns that a prepared statement returns."""
    described = connection.pgconn.describe_prepared(prepared_name.encode())
    return tuple((described.fname(n) or b"").decode() for n in range(described.nfields))


@cache
def mentions() -> frozenset[tuple[str, str]]:
    """Return the file and name of every query that the source uses."""
    return frozenset(use for path in SOURCE.rglob("*.py") for use in uses(path))


def uses(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the file and name of each query that a module uses in the form `SQL[name]`."""
    tree, prefix = ast.parse(path.read_text()), "waybook.store."
    own = path.relative_to(STORE).with_suffix("").as_posix() if STORE in path.parents else ""
    files_by_name = {"SQL": own}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(prefix):
            package = f"{node.module}.".removeprefix(prefix).replace(".", "/")
            for imported in node.names:
                file = package.rstrip("/") if imported.name == "SQL" else package + imported.name
                files_by_name[imported.asname or imported.name] = file
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(
                value=ast.Name(alias) | ast.Attribute(value=ast.Name(alias), attr="SQL"),
                slice=ast.Constant(str(name)),
            ) if alias in files_by_name and files_by_name[alias] in FILES:
                yield files_by_name[alias], name


@pytest.mark.parametrize("file", [file for file in FILES if file not in BY_NAME])
def test_every_named_sql_query_is_used_in_the_source(file: str) -> None:
    assert [name for name in load(file) if (file, name) not in mentions()] == []


def test_every_shared_sql_part_is_used_several_times() -> None:
    texts = [query.text for file in FILES for query in load(file).values()]
    for name, part in load("parts").items():
        assert sum(text.count(part.text) for text in texts) > 1, name
        assert not any(f":{name}" in text for text in texts), name


def test_every_sql_query_name_in_the_source_is_defined() -> None:
    assert mentions() <= {(file, name) for file in FILES for name in load(file)}


def test_values_that_look_like_placeholders_are_not_replaced() -> None:
    query = Query("q", "select %(a)s, %(b)s, %(a)s")
    statement = query(a="%(b)s", b="100%")
    assert str(statement) == "select $1, $2, $1"
    assert statement.parameters == [b"%(b)s", b"100%"]


class Inner(NamedTuple):
    a: int
    b: str


class Outer(NamedTuple):
    inner: Inner
    c: int


def test_row_class_that_extends_another_has_columns_of_both_classes() -> None:
    query = Query("q", "select 1 as a, 'x' as b, 2 as c", Outer)
    assert column_names(Outer) == ("a", "b", "c")
    assert query.make_row is not None
    assert query.make_row((1, "x", 2)) == Outer(Inner(1, "x"), 2)


def test_inserts_of_different_row_counts_are_different_prepared_statements() -> None:
    query = Query("q", "insert into t (a, b) values %(rows)s")
    one, two, many = (query(rows=Rows([(1, None)] * n)) for n in (1, 2, PREPARED_ROW_COUNT + 1))
    assert str(two) == "insert into t (a, b) values ($1, $2), ($3, $4)"
    assert two.parameters == [b"1", None, b"1", None]
    assert one.form.name != two.form.name
    assert many.form.name is None
