"""Number of tasks into which a Citus cluster splits each SQL query of Waybook.

A task is a query on the shards of one node. A query that a server sends must be a single task,
because an agent or a person waits for it. A query that reads no rows of orgs has no task.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from embedded_postgres.processes import eventually
from tools.schema_check.check import query_texts
from waybook.store.driver.queries import Query, new_uuid
from waybook.store.maintenance.migrate import APP_ROLE

_TASKS: Final = re.compile(r"Task Count: (\d+)")
#: Values for parameters of each type. No value is null, because Citus plans no comparisons with
#: null.
VALUES: Final = {
    "uuid": new_uuid(),
    "text": "00",
    "integer": "1",
    "bigint": "1",
    "smallint": "1",
    "numeric": "1",
    "double precision": "1",
    "real": "1",
    "boolean": "false",
    "bytea": r"\x00",
    "json": "[]",
    "jsonb": "[]",
    "timestamp with time zone": "2030-01-01T00:00:00Z",
    "interval": "1 second",
}
#: Queries of frequent calls, each with its purpose.
FREQUENT: Final = {
    "accounts/accounts.name_org_by_token_of_org": "look up the org of a token",
    "accounts/accounts.bearer_of_token_of_org": "look up a token",
    "accounts/accounts.check_token": "check a cached token",
    "accounts/accounts.person_of_session_of_org": "look up a web session",
    "links.link_by_hash_of_org": "look up a link",
    "plans/load.load_plan": "load a plan",
    "plans/load.lock_if_unchanged": "lock a cached plan",
    "plans/refresh.changes_since": "refresh a cached plan",
    "plans/load.load_candidates": "next step",
    "plans/load.load_call": "submit a step",
    "plans/writer.update_plan": "claim and submit: the plan",
    "plans/writer.update_step": "claim and submit: the step",
    "plans/writer.complete_and_start": "submit and claim: both steps",
    "plans/writer.insert_result": "submit: the result",
    "calls.insert_answer": "store the answer of a call",
    "calls.stored_answer": "find the answer of a repeated call",
    "audit.insert_audit": "write audit entries",
    "plans/writer.touch_steps": "heartbeat of a step",
    "runs/jobs.claimable_job": "next job",
    "runs/writer.advance_unchanged_run": "claims and results of several workers: the run",
    "runs/writer.advance_run_with_job": "claim and submit: the run and the job",
    "runs/writer.update_unchanged_run": "submit the last job of a stage: the run",
    "runs/writer.update_job": "claims and results of several workers: a job",
    "runs/writer.insert_jobs": "open the jobs of a stage",
    "plans/lists.plans_by_activity": "list of plans",
    "plans/lists.plans_in_state": "list of plans in a state",
    "plans/lists.plans_with_text": "list of plans with a text",
    "plans/lists.open_reviews": "list of reviews",
    "runs/load.runs_by_activity": "list of runs",
    "agents.agents_page": "list of agents",
    "calls.insert_calls": "log calls",
    "agents.record_agents": "record agents",
    "plans/writer.check_stalls": "look for stalled plans",
    "runs/jobs.runs_to_render": "look for documents to render",
    "deliveries.claim": "look for webhook deliveries",
}
_PER_ORG = "a secret without the code of its org: every node is asked"
_DIRECTORY = "the org is stored on every node"
_NO_VECTORS = "pgvector is not installed"
#: Queries that may have more than one task, or that Citus may refuse, with the reasons.
UNROUTED: Final = {
    "accounts/accounts.name_org_by_token": _PER_ORG,
    "accounts/accounts.bearer_of_token": _PER_ORG,
    "accounts/accounts.name_org_by_session": _PER_ORG,
    "accounts/accounts.person_of_session": _PER_ORG,
    "links.name_org_by_link": _PER_ORG,
    "links.link_by_hash": _PER_ORG,
    "accounts/accounts.update_org": _DIRECTORY,
    "accounts/accounts.add_org": "only the owner inserts orgs",
    "research/artifacts.insert_vectors": _NO_VECTORS,
    "research/artifacts.nearest_vectors": _NO_VECTORS,
    "research/artifacts.nearest_vectors_in_plan": _NO_VECTORS,
    "research/artifacts.without_vectors": _NO_VECTORS,
}
#: Queries that read the table `org` while the org is not known. Other queries replace them on a
#: cluster.
SKIP: Final = {"accounts/accounts.member", "accounts/accounts.name_org_by_slug"}


class Planned(NamedTuple):
    """Query with the number of its tasks, or with the error with which Citus refuses it."""

    name: str
    tasks: int
    #: Number of subqueries that run before the query, because all nodes need their results.
    subplans: int
    refusal: str = ""

    @property
    def is_routed(self) -> bool:
        """Return whether the query runs on a single node, and no subquery runs before it."""
        return not self.refusal and self.tasks <= 1 and not self.subplans


def plan_queries(dsn: str) -> list[Planned]:
    """Let Citus plan every query that a server sends; return the number of tasks of each query.

    Raises:
        SystemExit: this module names a query that does not exist.
    """
    texts = query_texts()
    if missing := {*FREQUENT, *UNROUTED, *SKIP} - texts.keys():
        raise SystemExit(f"tasks.py names queries that do not exist: {', '.join(sorted(missing))}")
    return [
        plan_query(dsn, name, text)
        for name, text in texts.items()
        if not name.startswith("maintenance/") and "{" not in text and name not in SKIP
    ]


def plan_query(dsn: str, name: str, text: str) -> Planned:
    """Let Citus plan a query with values of the right types, without executing the query.

    Each query has its own connection. Some queries crash Citus, and PostgreSQL then closes all
    connections.
    """
    numbered = Query(name.rpartition(".")[2], text)._numbered(2, _count_inserted_columns(text))
    eventually(partial(_answers, dsn), "the coordinator answers")
    try:
        with psycopg.connect(dsn) as connection:
            connection.execute(f"set local role {APP_ROLE}".encode())
            connection.execute(f"set local app.org_id = '{VALUES['uuid']}'".encode())
            connection.execute(b"set local plan_cache_mode = force_custom_plan")
            planned = Planned(name, *_explain(connection, numbered, VALUES))
            connection.rollback()
            return planned
    except psycopg.Error as error:
        return Planned(name, 0, 0, str(error).splitlines()[0])


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def _count_inserted_columns(text: str) -> int:
    listed = re.search(r"insert into \w+(?: as \w+)?\s*\(([^)]*)\)", text)
    return listed[1].count(",") + 1 if listed else 3


def _explain(
    connection: psycopg.Connection, text: str, values_by_type: Mapping[str, str]
) -> tuple[int, int]:
    connection.execute(f"prepare asked as {text}".encode())
    row = connection.execute(
        "select parameter_types::regtype[]::text[] from pg_prepared_statements where name = 'asked'"
    ).fetchone()
    types: list[str] = row[0] if row else []
    values = [
        sql.Literal("{}" if "[]" in kind else values_by_type.get(kind, "1")) for kind in types
    ]
    if types and types[-1] == "uuid":
        values[-1] = sql.Literal(VALUES["uuid"])
    parameters = sql.SQL("({})").format(sql.SQL(", ").join(values)) if values else sql.SQL("")
    plan = connection.execute(sql.SQL("explain (costs off) execute asked") + parameters).fetchall()
    lines = "\n".join(line for (line,) in plan)
    subplans = lines.count("Distributed Subplan") + lines.count("pull to coordinator")
    return sum(map(int, _TASKS.findall(lines))), subplans
