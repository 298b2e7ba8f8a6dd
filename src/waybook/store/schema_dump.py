"""The schema as text, read from the catalogue: what the migrations come to.

The same on every server and in every run, so that it can be checked in and compared.
`python -m waybook.store.schema_dump DSN` prints that of a database.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg

from waybook.store.sql import load

SQL = load("schema_dump")

HEAD = """\
-- What the migrations come to. Made by `python -m waybook.store.schema_dump`; do not edit.
"""

Rows: TypeAlias = list[tuple[Any, ...]]


def dump(dsn: str) -> str:
    """The functions and tables of a migrated database, each table with all that is its own."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        found = {
            name: connection.execute(query.text.encode()).fetchall() for name, query in SQL.items()
        }
    parts = [HEAD, *(f"{row[0].strip()};\n" for row in found["functions"])]
    by_table = {
        name: _by_table(found[name])
        for name in ("columns", "constraints", "indexes", "triggers", "policies", "grants")
    }
    for table in found["tables"]:
        own = {name: rows.get(table[0], []) for name, rows in by_table.items()}
        parts.append("\n".join(_table(table, own)) + "\n")
    return "\n".join(parts)


def _by_table(rows: Rows) -> dict[str, Rows]:
    told: dict[str, Rows] = defaultdict(list)
    for row in rows:
        told[row[0]].append(row[1:])
    return told


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
    yield from (f"grant {may} on {name} to {role};" for role, may in own["grants"])


def _column(column: tuple[Any, ...]) -> str:
    name, kind, not_null, default, generated = column
    made = f" generated always as ({default}) stored" if generated else f" default {default}"
    return f"{name} {kind}" + (" not null" if not_null else "") + (made if default else "")


def _policy(table: str, policy: tuple[Any, ...]) -> str:
    name, permissive, command, roles, using, check = policy
    return (
        f"create policy {name} on {table} as {permissive.lower()} for {command.lower()} to {roles}"
        + (f"\n  using {using}" if using else "")
        + (f"\n  with check {check}" if check else "")
        + ";"
    )


if __name__ == "__main__":
    sys.stdout.write(dump(sys.argv[1]))
