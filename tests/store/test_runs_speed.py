"""Frequent queries on runs use an index, and frequent updates change no index."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest

from embedded_postgres.processes import eventually
from org_env import make_env
from postgres_servers import Server, ServerDatabase, new_database
from query_plans import explain, nodes
from waybook.accounts.model import LOCAL_ORG
from waybook.core.decision_context import Holder
from waybook.dag.expansion.inputs import DocumentSlot
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import Statement, new_uuid
from waybook.store.runs import cache, inputs, jobs, load
from waybook.store.runs import jobs as documents
from waybook.store.runs.jobs import JobRequest

#: SQL that inserts 1,200 runs into each of two orgs. Each run has 20 jobs, one of them in progress.
FILL = """
insert into dag_definition (org_id, slug, version, name, body, body_hash, created_at, created_by)
select org_id, 'dag-' || n, 1, 'DAG', '{}', '\\x00', now(), 'ann'
  from org, generate_series(1, 1200) n;
insert into run (org_id, id, name, dag_slug, dag_version, audit_seq, audit_hash, updated_at)
select org_id, gen_random_uuid(), 'Run', 'dag-1', 1, 1, '\\x00', now()
  from org, generate_series(1, 1200);
insert into run_brief (org_id, run_id, input, created_at, created_by)
select org_id, id, '"x"', now(), 'ann' from run;
insert into stage_run (org_id, run_id, stage_slug, models, prior, started_at)
select org_id, id, 's' || n, '[]', '{}', now() from run, generate_series(1, 2) n;
insert into stage_step (org_id, run_id, stage_slug, step_key, total, done, failed, opened_at)
select org_id, run_id, stage_slug, 'k' || n, 9, 0, 0, now()
  from stage_run, generate_series(1, 6) n;
insert into job (org_id, id, run_id, stage_slug, step_key, job_type, model, rank, unit, status,
                 attempt, tries, ready_at, held_by, held_session, completed_at, part,
                 document_id, counted)
select r.org_id, gen_random_uuid(), r.id, 's1', 'k' || n % 6,
       case when n % 5 = 0 then 'RENDER' else 'EXECUTE' end, 'm' || n % 7, n % 6,
       case when n % 5 = 0 then null else '{}'::json end,
       case when n = 1 then 'processing' when n < 12 then 'pending' when n = 13 then 'failed'
            else 'completed' end,
       1, 1, now(), case when n = 1 then 'ann' end, case when n = 1 then 'session' end,
       case when n < 12 then null else now() end, 1, gen_random_uuid(), true
  from run r, generate_series(1, 20) n;
insert into document (org_id, id, run_id, stage_slug, step_key, job_id, document_key, model,
                      lineage, version, content, content_hash, created_at)
select org_id, document_id, run_id, stage_slug, step_key, id, 'd' || rank, model, id::text, 1, 'x',
       'x', now()
  from job where rank < 3;
insert into rendered_document (org_id, id, run_id, document_id, job_id, markdown, html,
                               content_hash, created_at)
select d.org_id, gen_random_uuid(), d.run_id, d.id, d.job_id, 'x', 'x', 'x', now()
  from document d;
insert into job_part (org_id, job_id, run_id, part, content, content_hash)
select org_id, id, run_id, 1, 'x', 'x' from job where rank < 3;
insert into late_result (org_id, id, run_id, job_id, attempt, content, content_hash, created_at,
                         created_by)
select org_id, gen_random_uuid(), run_id, id, 1, 'x', 'x', now(), 'ann' from job where rank < 3;
insert into usage (org_id, id, run_id, job_id, attempt, input_tokens, at, by)
select org_id, gen_random_uuid(), run_id, id, 1, 10, now(), 'ann' from job where rank < 3;
insert into comment (org_id, id, run_id, body, created_at, created_by, channel)
select org_id, 'c' || row_number() over (), id, 'x', now(), 'ann', 'mcp' from run;
analyze;
"""


@pytest.fixture(scope="module")
def full(server: Server) -> Iterator[ServerDatabase]:
    """Yield a database with many jobs in two orgs."""
    with new_database(server) as place:
        add_org(place.owner_dsn, UUID(new_uuid()), "other_org")
        with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
            admin.execute(FILL.encode())
        yield place


class Node(NamedTuple):
    """Node of a query plan: operation, table, index, and condition on the index."""

    kind: str
    table: str | None
    through: str | None
    condition: str


def plan(place: ServerDatabase, statement: Statement, *settings: str) -> list[Node]:
    """Return the generic query plan of a statement under these settings."""
    return [
        Node(
            node["Node Type"],
            node.get("Relation Name"),
            node.get("Index Name"),
            node.get("Index Cond", ""),
        )
        for node in nodes(explain(place, statement, *settings))
    ]


@pytest.fixture(scope="module")
def named(full: ServerDatabase) -> tuple[str, str, str]:
    """Return the ids of a run, a job of this run, and a document of this job."""
    with psycopg.connect(full.admin_dsn) as admin:
        query = (
            "select run_id::text, job_id::text, id::text from document where org_id = %s limit 1"
        )
        row = admin.execute(query, (LOCAL_ORG,)).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


ME = Holder("ann", "session")
ANY = JobRequest(model=None, job_type=None, lease_seconds=900, holder=ME)
SELECT_1 = JobRequest(model="m1", job_type=None, lease_seconds=900, holder=ME)

#: For each query, the index that it uses, and whether the index gives the order of the rows.
HOT = {
    "run_of_job": ("job_pkey", True),
    "load_job": ("job_pkey", True),
    "held_job": ("job_holder", False),
    "free_job": ("job_open", True),
    "free_job_for_model": ("job_open_for_model", True),
    "open_jobs": ("job_open", False),
    "failed_jobs": ("job_failed", False),
    "to_render": ("job_to_render", True),
    "lock_run": ("run_pkey", True),
    "load_stages": ("stage_run_pkey", False),
    "load_steps": ("stage_step_pkey", True),
    "run_brief": ("run_brief_pkey", True),
    "documents_of": ("document_place", False),
    "documents_of_lineage": ("document_place", False),
    "content": ("document_pkey", True),
    "run_of_document": ("document_pkey", True),
    "definition": ("dag_definition_pkey", True),
}


def hot(run_id: str, job_id: str, document_id: str) -> dict[str, Statement]:
    lock, stages, steps = load.load_statements(run_id, lock=True)
    return {
        "run_of_job": load.SQL["run_of_job"](job_id=job_id),
        "load_job": jobs.SQL["load_job"](job_id=job_id),
        "held_job": jobs.SQL["held_job"](run_id=run_id, **SELECT_1.values),
        "free_job": jobs.claimable_statement(run_id, ANY),
        "free_job_for_model": jobs.claimable_statement(run_id, SELECT_1),
        "open_jobs": jobs.SQL["open_jobs"](run_id=run_id, most=40),
        "failed_jobs": jobs.SQL["failed_jobs"](run_id=run_id, stage="s1", step_key=None),
        "to_render": jobs.SQL["to_render"](run_id=run_id, most=20),
        "lock_run": lock,
        "load_stages": stages,
        "load_steps": steps,
        "run_brief": load.SQL["run_brief"](run_id=run_id),
        "documents_of": inputs.documents_statements(run_id, [DocumentSlot("s1", "d1")], 9)[0],
        "documents_of_lineage": inputs.documents_statements(
            run_id, [DocumentSlot("s1", "d1", "l1")], 9
        )[0],
        "content": documents.SQL["content"](
            run_id=run_id, document_id=document_id, start=0, most=100
        ),
        "run_of_document": documents.SQL["run_of_document"](document_id=document_id),
        "definition": load.SQL["definition"](slug="dag-7", version=1),
    }


@pytest.mark.parametrize("name", HOT)
def test_frequent_run_query_uses_the_intended_index(
    full: ServerDatabase, named: tuple[str, str, str], name: str
) -> None:
    index, ordered = HOT[name]
    nodes = plan(full, hot(*named)[name])
    assert [node for node in nodes if node.kind == "Seq Scan"] == []
    assert index in {node.through for node in nodes}, nodes
    if ordered:
        assert "Sort" not in {node.kind for node in nodes}, nodes


def test_query_of_held_jobs_reads_no_free_jobs(full: ServerDatabase) -> None:
    """A run may have thousands of free jobs, and the cache often repeats this query."""
    nodes = plan(full, cache.SQL["held_jobs"](run_id=new_uuid(), most=cache.MAX_HELD_JOBS))
    assert "job_holder" in {node.through for node in nodes}, nodes


def test_documents_of_a_lineage_are_read_by_index(
    full: ServerDatabase, named: tuple[str, str, str]
) -> None:
    """Without the index, the query would read a page for each document of another lineage."""
    nodes = plan(full, hot(*named)["documents_of_lineage"])
    (scan,) = [node for node in nodes if node.through == "document_place"]
    for column in ("run_id", "stage_slug", "document_key", "lineage"):
        assert column in scan.condition, scan


OTHERS = ["run_with_free_job", "parts", "document_job", "contents", "available", "run_rows"]


@pytest.mark.parametrize("name", OTHERS)
def test_run_queries_use_no_sequential_scan(
    full: ServerDatabase, named: tuple[str, str, str], name: str
) -> None:
    run_id, job_id, document_id = named
    statement = {
        "run_with_free_job": jobs.SQL["run_with_claimable_job"](**ANY.values),
        "parts": jobs.SQL["parts"](job_id=job_id),
        "document_job": documents.SQL["document_job"](run_id=run_id, document_id=document_id),
        "contents": documents.contents_statement([document_id], 100),
        "available": documents.SQL["available"](run_id=run_id),
        "run_rows": load.SQL["run_rows"](run_id=run_id),
    }[name]
    nodes = plan(full, statement)
    assert [node for node in nodes if node.kind == "Seq Scan"] == [], nodes


async def test_ninety_percent_of_run_and_step_updates_change_no_index(
    own_place: ServerDatabase,
) -> None:
    """While three runs are completed, at least 90 % of the updates must change no index."""
    async with make_env(own_place) as world:
        for _ in range(3):
            run = await world.agent.run("dialectic")
            while (result := await world.agent.work_off(run))["status"] == "awaiting_feedback":
                await world.agent.feedback(run, result["stageSlug"])

    def updates() -> dict[str, tuple[int, int]]:
        with psycopg.connect(own_place.admin_dsn) as admin:
            rows = admin.execute(
                "select relname, n_tup_hot_upd, n_tup_upd from pg_stat_user_tables"
                " where relname in ('run', 'stage_step')"
            ).fetchall()
        return {name: (warm, every) for name, warm, every in rows}

    result = updates()

    def counted() -> bool:
        result.update(updates())
        return all(every >= 200 for _, every in result.values())

    eventually(counted, "the server has counted")
    for table, (warm, every) in result.items():
        assert warm / every >= 0.9, (table, result)
