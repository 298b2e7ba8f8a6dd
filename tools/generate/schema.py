"""Text of the database schema, from the catalog of a migrated database.

The text is the same for all versions of PostgreSQL, so that a test can compare it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.store.maintenance.migrate import migrate

#: Pattern for the definition of the table `passage_vector`, which exists only on servers with
#: pgvector.
_VECTOR_TABLE = re.compile(r"create table passage_vector \(.*?\n\n", re.DOTALL)

Rows: TypeAlias = list[tuple[Any, ...]]


def render() -> str:
    """Migrate an empty embedded database; return its schema."""
    with temporary_database() as data_dir, attach(data_dir) as server:
        migrate(server.owner_dsn)
        return dump(server.owner_dsn)


def dump(dsn: str) -> str:
    """Return the functions and tables of a migrated database, except the table for pgvector."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        results = {
            name: connection.execute(query.encode()).fetchall() for name, query in _queries()
        }
    parts = [f"{row[0].strip()};\n" for row in results["functions"]]
    by_table = {
        name: _group_by_table(results[name])
        for name in ("columns", "constraints", "indexes", "triggers", "policies", "grants")
    }
    for table in results["tables"]:
        own = {name: rows.get(table[0], []) for name, rows in by_table.items()}
        parts.append("\n".join(_table(table, own)) + "\n")
    return _VECTOR_TABLE.sub("", "\n".join(parts))


def _queries() -> Iterator[tuple[str, str]]:
    text = Path(__file__).with_name("schema_queries.sql").read_text("utf-8")
    for piece in text.split("-- name: ")[1:]:
        name, body = piece.split("\n", 1)
        yield name.strip(), body


def _group_by_table(rows: Rows) -> dict[str, Rows]:
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row[1:])
    return groups


def _table(table: tuple[Any, ...], own: dict[str, Rows]) -> Iterator[str]:
    name, parent, bounds, partitioned, options, enabled, forced = table
    if parent:
        yield f"create table {name} partition of {parent} {bounds.lower()};"
    else:
        inner = [
            *map(_column, own["columns"]),
            *(f"constraint {n} {d}" for n, d in own["constraints"]),
        ]
        yield f"create table {name} ("
        yield ",\n".join(f"  {line}" for line in inner)
        by = f" partition by {partitioned.lower()}" if partitioned else ""
        yield ")" + by + (f" with ({options})" if options else "") + ";"
    yield from (f"{definition};" for (definition,) in (*own["indexes"], *own["triggers"]))
    if enabled:
        yield f"alter table {name} enable row level security;"
    if forced:
        yield f"alter table {name} force row level security;"
    yield from (_policy(name, policy) for policy in own["policies"])
    yield from (f"grant {rights} on {name} to {role};" for role, rights in own["grants"])


def _column(column: tuple[Any, ...]) -> str:
    name, kind, not_null, default, generated = column
    value = f" generated always as ({default}) stored" if generated else f" default {default}"
    return f"{name} {kind}" + (" not null" if not_null else "") + (value if default else "")


def _policy(table: str, policy: tuple[Any, ...]) -> str:
    name, permissive, command, roles, using, check = policy
    return (
        f"create policy {name} on {table} as {permissive.lower()} for {command.lower()} to {roles}"
        + (f"\n  using {using}" if using else "")
        + (f"\n  with check {check}" if check else "")
        + ";"
    )
