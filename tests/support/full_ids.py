"""Conversion of the short ids in replies to full ids, for tests that compare replies with rows."""

from typing import TypeVar, cast
from uuid import UUID

import psycopg

from waybook.core.short_ids import IdKind, parse_short_id
from waybook.store.driver.queries import is_id
from waybook.store.short_ids import ShortIdCache

T = TypeVar("T")

TABLES = {
    IdKind.PLAN: "plan",
    IdKind.STEP: "plan_step",
    IdKind.RUN: "run",
    IdKind.JOB: "job",
    IdKind.REVIEW: "review",
}
#: Full id of every short id that a dispatcher of this test process returned.
_RETURNED: dict[str, str] = {}

_add = ShortIdCache.add


def _record(cache: ShortIdCache, org_id: UUID, kind: IdKind, full_id: str) -> str:
    short = _add(cache, org_id, kind, full_id)
    _RETURNED[short] = full_id.lower()
    return short


ShortIdCache.add = _record  # type: ignore[method-assign, assignment]  # records what the tests look up


def full_id(short: str) -> str:
    """Return the full id of a short id that a reply in this process contained."""
    return short if is_id(short) else _RETURNED[short]


def with_full_ids(value: T) -> T:
    """Return a reply, or a part of one, with full ids in place of all short ids."""
    return cast("T", _with_full_ids(value))


def _with_full_ids(value: object) -> object:
    match value:
        case dict():
            return {name: _with_full_ids(inner) for name, inner in value.items()}
        case list():
            return [_with_full_ids(inner) for inner in value]
        case str():
            return _RETURNED.get(value, value)
    return value


def stored_full_id(dsn: str, kind: IdKind, short: str) -> str:
    """Return the full id of a short id of any org, as stored in a database."""
    with psycopg.connect(dsn) as connection:
        statement = f"select id::text from {TABLES[kind]} where short_key = %s"  # noqa: S608 - a name from above
        (row,) = connection.execute(statement.encode(), (parse_short_id(short),)).fetchall()
        return str(row[0])
