"""Generic query plans, which PostgreSQL makes without knowing the parameter values."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg

from postgres_servers import ServerDatabase
from statements import prepared
from waybook.accounts.model import LOCAL_ORG
from waybook.store.driver.queries import Statement

#: Node of a query plan, in the JSON format of PostgreSQL.
PlanNode: TypeAlias = dict[str, Any]


def explain(place: ServerDatabase, statement: Statement, *settings: str) -> PlanNode:
    with psycopg.connect(place.app_dsn, autocommit=True) as connection, connection.transaction():
        if place.server.role:
            connection.execute(f"set local role {place.server.role}".encode())
        connection.execute(f"set local app.org_id = '{LOCAL_ORG}'".encode())
        for setting in ("plan_cache_mode = force_generic_plan", *settings):
            connection.execute(f"set local {setting.removeprefix('set local ')}".encode())
        query = f"explain (format json) {prepared(connection, statement)}"
        row = connection.execute(query.encode()).fetchone()
        connection.execute(b"deallocate all")
    assert row is not None
    plan: PlanNode = row[0][0]["Plan"]
    return plan


def nodes(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for inner in node.get("Plans", []):
        yield from nodes(inner)


def scans(node: PlanNode) -> set[tuple[str, str]]:
    """Return the pairs of table and scan type in a query plan."""
    return {
        (inner["Relation Name"], inner["Node Type"])
        for inner in nodes(node)
        if "Relation Name" in inner
    }


def conditions(node: PlanNode, *indexes: str) -> list[str]:
    """Return the index conditions of the scans in a query plan that use these indexes."""
    return [
        inner.get("Index Cond", "") for inner in nodes(node) if inner.get("Index Name") in indexes
    ]


def used_indexes(node: PlanNode) -> set[str]:
    return {inner["Index Name"] for inner in nodes(node) if "Index Name" in inner}
