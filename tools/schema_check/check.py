"""Check that the schema, queries and migrations work on a database cluster such as Citus.

A cluster stores all rows of an org on one node. If a query compares `org_id` with a parameter, the
cluster sends the query to that node alone. Citus supports no triggers, no keys without `org_id`,
and no volatile functions in updates.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg

from tools.schema_check.exceptions import OBJECTS, QUERIES
from tools.schema_check.migrations import check_migrations
from tools.schema_check.references import references
from waybook.store.driver.queries import ORG_PLACE, load
from waybook.store.maintenance.migrate import bundled_migrations

STORE = Path(__file__).parents[2] / "src" / "waybook" / "store"
#: SQL files that are not checked: `parts` has fragments of queries, and `migrate` creates the
#: schema.
NO_QUERIES = {"parts", "maintenance/migrate"}
_CALL = re.compile(r"\b(\w+)\s*\(")
_LOCK_OR_UPSERT = re.compile(r"\b(?:for|no\s+key|do)\s+update\b")
_CHANGE = re.compile(r"\b(?:update|delete\s+from)\b")
_INSERT_SELECT = re.compile(r"\binsert\s+into\s+\w+\s*\(([^)]*)\)\s*select\b")
_CHANGE_IN_WITH = re.compile(r"\bas\s*\(\s*(?:insert|update|delete)\b")
#: Pattern for string literals and function bodies, in which a semicolon does not end a statement.
_LITERAL = re.compile(r"'(?:[^']|'')*'|(\$\w*\$).*?\1", re.DOTALL)
_DDL = re.compile(r"\s*(?:create|alter|drop|grant|revoke)\b")
#: Pattern for a function call that changes a setting of the transaction, such as its org.
_SET_BY_FUNCTION = re.compile(r"\bset_config\(\s*'app\.")
#: Pattern for a column plus or minus an interval, which depends on the time zone of the session.
_MOVED_TIME = re.compile(r"(?<![\w.%)':])(?!interval\b)[a-z_][\w.]*\s*[-+]\s*(?:make_)?interval\b")
_SLICE = re.compile(r"\[\s*\w*\s*:\s*\w*\s*\]")


class Violation(NamedTuple):
    """Database object or query that cannot be distributed, with the rule that it violates."""

    name: str
    rule: str

    def __str__(self) -> str:
        return f"{self.name}: {self.rule}"


class Catalog(NamedTuple):
    """Tables with rows of orgs, and functions that updates must not call."""

    tenant_tables: frozenset[str]
    volatile_functions: frozenset[str]


def check(connection: psycopg.Connection) -> list[Violation]:
    """Return all database objects and queries that cannot be distributed."""
    catalog = read_catalog(connection)
    violations = [
        *check_schema(connection, catalog),
        *check_queries(query_texts(), catalog),
        *map(Violation._make, check_migrations(bundled_migrations())),
    ]
    return [item for item in violations if item.name not in OBJECTS | QUERIES]


def read_catalog(connection: psycopg.Connection) -> Catalog:
    """Return the tables with rows of orgs, and the volatile functions, of a database."""
    sql = _catalog_queries()
    names = (
        frozenset(row[0] for row in connection.execute(sql[query].encode()))
        for query in ("tenant_tables", "volatile_functions")
    )
    return Catalog(*names)


def check_schema(connection: psycopg.Connection, catalog: Catalog) -> Iterator[Violation]:
    """Yield all violations by the schema, even accepted ones."""
    sql = _catalog_queries()
    for name in sql:
        if name.startswith("violation_"):
            yield from map(Violation._make, connection.execute(sql[name].encode()))
    for table, column, default in connection.execute(sql["defaults"].encode()):
        if functions := _calls(default) & catalog.volatile_functions:
            yield Violation(f"{table}.{column}", f"default calls volatile {_listed(functions)}")


def check_queries(texts: Mapping[str, str], catalog: Catalog) -> Iterator[Violation]:
    """Yield all violations by queries, even accepted ones."""
    for name, text in texts.items():
        lacking = {
            reference.table
            for reference in references(text, catalog.tenant_tables)
            if not reference.has_org_condition
        }
        if lacking:
            yield Violation(name, f"no condition on the org of {_listed(lacking)}")
        elif name.startswith("maintenance/"):
            yield from _coordinator_only(name, text)
        else:
            yield from _unroutable(name, text, catalog)
        is_change = _CHANGE.search(_LOCK_OR_UPSERT.sub("", text))
        if is_change and (functions := _calls(text) & catalog.volatile_functions):
            yield Violation(name, f"an update or delete calls volatile {_listed(functions)}")
        if is_change and _MOVED_TIME.search(text):
            yield Violation(name, "an update or delete adds an interval to a column")


def _coordinator_only(name: str, text: str) -> Iterator[Violation]:
    """Yield violations by a query of the database owner that would not reach all nodes."""
    statements = _LITERAL.sub("''", text).rstrip().rstrip(";").split(";")
    if len(statements) > 1 and any(map(_DDL.match, statements)):
        yield Violation(name, "a change of the schema in a message of several statements")
    if _SET_BY_FUNCTION.search(text):
        yield Violation(name, "set_config does not reach the nodes; use set local")


def _unroutable(name: str, text: str, catalog: Catalog) -> Iterator[Violation]:
    """Yield violations by a server's query that Citus 13 refuses or cannot send to a single node.

    Queries of the database owner may go to all nodes, because no agent or person waits for them.
    """
    if f"%({ORG_PLACE})s" not in text and any(references(text, catalog.tenant_tables)):
        yield Violation(name, "compares the org with a function, not with the parameter")
    for columns in _INSERT_SELECT.findall(text):
        if "org_id" not in columns:
            yield Violation(name, "an insert of selected rows does not name the column org_id")
        if _CHANGE_IN_WITH.search(text):
            yield Violation(name, "an insert of the rows that another change returns")
    if "insert into" in text and _SLICE.search(text):
        yield Violation(name, "an array slice in an upsert, on which Citus 13.2 crashes")


def query_texts() -> dict[str, str]:
    """Return every query in the SQL files, by file and name, with shared fragments filled in."""
    files = (path.relative_to(STORE).with_suffix("").as_posix() for path in STORE.rglob("*.sql"))
    return {
        f"{file}.{name}": query.text
        for file in sorted(files)
        if file not in NO_QUERIES and not file.startswith("migrations/")
        for name, query in load(file).items()
    }


def _calls(text: str) -> set[str]:
    return {name.lower() for name in _CALL.findall(text)}


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _catalog_queries() -> dict[str, str]:
    text = Path(__file__).with_name("catalog.sql").read_text("utf-8")
    pieces = (piece.split("\n", 1) for piece in text.split("-- name: ")[1:])
    return {name.strip(): body for name, body in pieces}
