"""Frequent queries use an index, and frequent updates change no index."""

import re
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from embedded_postgres.processes import eventually
from org_env import make_env
from postgres_servers import Server, ServerDatabase, new_database
from query_plans import conditions, explain, nodes, scans, used_indexes
from waybook.accounts.model import LOCAL_ORG
from waybook.app.queries.work_list import (
    PLANS_PER_PAGE,
    ListOrder,
    PlanFilter,
    RunFilter,
    plans_statement,
    runs_statement,
)
from waybook.core.decision_context import Holder
from waybook.core.shown import Shown
from waybook.store import audit, overview
from waybook.store.accounts.accounts import add_org
from waybook.store.calls import Key
from waybook.store.driver.queries import LAST_UUID, Statement, Value, new_uuid
from waybook.store.plans import contexts, details, lists, load, writer
from waybook.store.plans.load import PlanRequest
from waybook.store.text_search import KINDS, SETTINGS, TextQuery, text_search_statements

ME = Holder("ann", "1")
PLANS = 2_500
STEPS = 6

#: SQL that inserts many rows into two orgs. Each plan and run was last active in a different
#: minute, because an index on the time would not help if all times were equal.
FILL = """
insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash, updated_at)
select o.org_id, gen_random_uuid(), 'Plan', 'executing', 1, 1, '\\x00', now() - n * interval '1 min'
  from org o, generate_series(1, %(plans)s) n;
insert into plan_brief (org_id, plan_id, research_question, created_at, created_by)
select org_id, id, 'Why?', now(), 'ann' from plan;
insert into plan_step (org_id, id, plan_id, step_order, step_type, status, attempt)
select org_id, gen_random_uuid(), id, n, 'search', 'pending', 1
  from plan, generate_series(1, %(steps)s) n;
insert into step_brief (org_id, step_id, instructions)
select org_id, id, 'Look.' from plan_step;
insert into step_result (org_id, step_id, result_summary)
select org_id, id, '1' from plan_step;
insert into branching_condition (org_id, id, plan_id, step_id, position, expression, action)
select org_id, gen_random_uuid(), plan_id, id, 1, 'true', 'continue' from plan_step;
insert into review (org_id, id, plan_id, step_id, summary, questions, requested_at, requested_by,
                    decision, decided_at)
select org_id, gen_random_uuid(), plan_id, id, 'x', '[]', now(), 'ann', 'approve', now()
  from plan_step;
insert into plan_session (org_id, plan_id, session, seen_at)
select org_id, id, n::text, now() from plan, generate_series(1, 10) n;
insert into artifact (org_id, id, plan_id, kind, title, content, created_at, created_by)
select org_id, gen_random_uuid(), id, 'note', 'x', '1', now(), 'ann' from plan;
insert into passage (org_id, subject, subject_id, part, plan_id, kind, title, body, created_at)
select org_id, 'artifact', id, 1, plan_id, 'note', 'x', 'y', now() from artifact;
insert into source (org_id, id, title, content_hash, created_at, created_by)
select org_id, id, 'x', id::text, now(), 'ann' from artifact;
insert into artifact_source (org_id, artifact_id, source_id, position)
select org_id, id, id, 1 from artifact;
insert into audit_entry (org_id, subject_id, seq, at, subject, event, actor, channel, details, hash)
select org_id, id, n, now(), 'plan', 'step_started', 'ann', 'mcp', '{}', '\\x00'
  from plan, generate_series(1, 2) n;
insert into dag_definition (org_id, slug, version, name, body, body_hash, created_at, created_by)
select org_id, 'd', 1, 'D', '{}', '\\x00', now(), 'ann' from org;
insert into run (org_id, id, name, dag_slug, dag_version, audit_seq, audit_hash, updated_at)
select org_id, id, 'Run', 'd', 1, 1, '\\x00', updated_at from plan;
insert into run_brief (org_id, run_id, input, created_at, created_by)
select org_id, id, '"Why?"', now(), 'ann' from run;
insert into stage_run (org_id, run_id, stage_slug, models, prior, started_at)
select org_id, id, 's', '[]', '[]', now() from run;
insert into job (org_id, id, run_id, stage_slug, step_key, job_type, model, rank, unit, status,
                 attempt, tries, ready_at, part, counted)
select org_id, id, id, 's', 'k', 'EXECUTE', 'm', 1, '{}', 'pending', 1, 1, now(), 1, true from run;
insert into document (org_id, id, run_id, stage_slug, step_key, job_id, document_key, model,
                      lineage, version, content, content_hash, created_at)
select org_id, id::uuid, id, 's', 'k', id, 'x', 'm', 'l', 1, 'Text of it.', '', now() from run;
insert into idempotency_answer (org_id, tool, key, arguments_hash, is_error, answer, created_at)
select org_id, 'get_next_step', n::text, '\\x00', false, '{}', now()
  from org, generate_series(1, 2000) n;
analyze;
"""


@pytest.fixture(scope="module")
def full(server: Server) -> Iterator[ServerDatabase]:
    """Yield a database with many plans in two orgs."""
    counted = FILL % {"plans": PLANS, "steps": STEPS}
    with new_database(server) as place:
        add_org(place.owner_dsn, UUID(new_uuid()), "other_org")
        with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
            admin.execute(counted.encode())
        yield place


def make_plan_id(place: ServerDatabase) -> tuple[str, str]:
    with psycopg.connect(place.admin_dsn) as admin:
        query = "select plan_id::text, id::text from plan_step where org_id = %s limit 1"
        row = admin.execute(query, (LOCAL_ORG,)).fetchone()
    assert row is not None
    return row[0], row[1]


def test_frequent_plan_queries_use_no_sequential_scan(full: ServerDatabase) -> None:
    plan_id, step_id = make_plan_id(full)
    key = Key(tool="get_next_step", key="k", user="ann", arguments_hash=b"")
    by_plan = load.load_statements(PlanRequest(plan_id=plan_id, holder=ME), key, lock=True)
    wanted = PlanRequest(plan_id=plan_id, candidates=True, holder=ME)
    for_work = load.load_statements(wanted, key, lock=True)
    page = contexts.FIRST_PAGE._asdict()
    statements = {
        "plan of a step": load.SQL["plan_of_step"](step_id=step_id),
        "lock": by_plan[0],
        "steps": by_plan[1],
        "candidates": for_work[1],
        "call": by_plan[2],
        "review": by_plan[3],
        "results": load.SQL["results_within"](plan_id=plan_id, most=24_000),
        "results, cut": load.SQL["results_cut"](plan_id=plan_id, most=160),
        "formatting notes": load.SQL["formatting_notes"](plan_id=plan_id),
        "artifacts": contexts.SQL["newest_artifacts"](plan_id=plan_id, step_id=None, **page),
        "artifacts of a step": contexts.SQL["newest_artifacts"](
            plan_id=plan_id, step_id=step_id, **page
        ),
        "artifacts by id": contexts.artifacts_statement(plan_id, {step_id: 1}, 1_200),
        "what a step is about": contexts.SQL["about_step"](step_id=step_id),
        "beginnings of results": contexts.SQL["result_prefixes"](plan_id=plan_id, most=1_000),
        "beginnings of instructions": contexts.SQL["instruction_prefixes"](
            plan_id=plan_id, most=1_000
        ),
        "feedback": contexts.SQL["feedback"](plan_id=plan_id, step_id=step_id, **page),
        "piece of a step": contexts.SQL["step_text_slice"](
            plan_id=plan_id, kind="result", id=step_id, **page
        ),
        "brief": load.SQL["brief"](plan_id=plan_id),
    }
    for name, statement in statements.items():
        table_scans = scans(explain(full, statement))
        assert table_scans, name
        sequential = {table for table, how in table_scans if how == "Seq Scan"}
        assert sequential <= {"skill_execution"}, name


def test_open_plans_query_reads_steps_by_index(full: ServerDatabase) -> None:
    statement = plans_statement(PlanFilter(order=ListOrder.ACTIVITY), 20)
    table_scans = scans(explain(full, statement))
    assert "Seq Scan" not in {how for table, how in table_scans if table == "plan_step"}


@pytest.mark.parametrize(
    "wanted",
    [
        PlanFilter(order=ListOrder.CREATION),
        PlanFilter(order=ListOrder.CREATION, all=True),
        PlanFilter(order=ListOrder.CREATION, creator="ann"),
        PlanFilter(order=ListOrder.CREATION, state=Shown.STALLED),
    ],
)
def test_plan_list_query_reads_page_from_index_without_sorting(
    full: ServerDatabase, wanted: PlanFilter
) -> None:
    query_plan = explain(full, plans_statement(wanted, PLANS_PER_PAGE + 1))
    table_scans = scans(query_plan)
    assert {table for table, how in table_scans if how == "Seq Scan"} == set()
    assert ("plan", "Index Scan") in table_scans
    limits = (node for node in nodes(query_plan) if node["Node Type"] == "Limit")
    pages = [limit for limit in limits if "plan" in {table for table, _ in scans(limit)}]
    assert pages
    assert "Sort" not in {inner["Node Type"] for page in pages for inner in page["Plans"]}


def test_waiting_reviews_query_does_not_scan_all_reviews(full: ServerDatabase) -> None:
    table_scans = scans(explain(full, lists.SQL["waiting"](most=1_000)))
    assert {how for table, how in table_scans if table == "review"} != {"Seq Scan"}


def unbounded_reads() -> dict[str, Statement]:
    """Return the queries about all plans of an org."""
    look = overview.overview_statements(
        overview.LastLook(), most=10, wide=100, long=200, patience=3_600
    )
    names = ("waiting for a person", "in trouble", "running", "finished", "totals", "hours")
    page: dict[str, Value] = {
        "since": "-infinity",
        "at": "infinity",
        "subject_id": LAST_UUID,
        "seq": 1,
        "most": 20,
    }
    filters: dict[str, Value] = {
        "event": None,
        "actor": None,
        "channel": None,
        "session": None,
        "members": True,
        **page,
    }
    return {
        **dict(zip(names, look, strict=True)),
        "plans by activity": plans_statement(PlanFilter(order=ListOrder.ACTIVITY), 20),
        "counts": lists.SQL["count_plans"](most=1_000, closed=True),
        "plans to check for stalls": writer.SQL["check_stalls"](patience=1_800, most=100),
        "stalls": load.SQL["count_stalls"](patience=1_800, most=100),
        "finished plans": details.SQL["finished_plans"](plan_id=LAST_UUID),
        "audit of an actor": audit.SQL["page_of_actor"](**{**filters, "actor": "ann"}),
        "audit of an event": audit.SQL["page_of_rare_event"](**{**filters, "event": "step_failed"}),
        "audit of a channel": audit.SQL["page_of_other_channel"](**{**filters, "channel": "cli"}),
    }


@pytest.mark.parametrize("name", unbounded_reads())
def test_query_about_all_plans_uses_an_index(full: ServerDatabase, name: str) -> None:
    # Disable sequential scans, as the server does. PostgreSQL then scans a table only if the
    # query can use no index.
    read = scans(explain(full, unbounded_reads()[name], "enable_seqscan = off"))
    tables = {"plan", "plan_step", "plan_brief", "review", "audit_entry_default", "usage"}
    assert {table for table, how in read if how == "Seq Scan"} & tables == set()


@pytest.mark.parametrize("name", ["counts", "totals"])
def test_plans_in_rare_status_are_counted_by_index(full: ServerDatabase, name: str) -> None:
    """All plans have the status `executing`, so the query must not read them to count others."""
    query_plan = explain(full, unbounded_reads()[name], "enable_seqscan = off")
    filters = [
        node["Filter"]
        for node in nodes(query_plan)
        if "Filter" in node and node.get("Relation Name") != "plan_step"
    ]
    assert [text for text in filters if "status" in text and "'executing'" not in text] == []
    assert any("'planning'" in text for text in conditions(query_plan, "plan_status"))


LISTS_BY_ACTIVITY = {
    "plan": plans_statement(PlanFilter(order=ListOrder.ACTIVITY), 20),
    "run": runs_statement(RunFilter(order=ListOrder.ACTIVITY), 20),
}


@pytest.mark.parametrize("table", LISTS_BY_ACTIVITY)
def test_plan_or_run_list_by_activity_is_read_in_index_order(
    full: ServerDatabase, table: str
) -> None:
    """Without the index, PostgreSQL would sort all open plans or runs to find the newest."""
    query_plan = explain(full, LISTS_BY_ACTIVITY[table], "enable_seqscan = off")
    assert {how for scanned, how in scans(query_plan) if scanned == table} == {"Index Scan"}
    assert f"{table}_open_activity" in used_indexes(query_plan)


def test_failed_steps_of_open_plans_are_looked_up_by_id(full: ServerDatabase) -> None:
    """With a join, PostgreSQL would read all failed steps of the org."""
    query_plan = explain(full, unbounded_reads()["running"], "enable_seqscan = off")
    used = [i for i in used_indexes(query_plan) if i.startswith(("plan_step", "stage_step"))]
    texts = conditions(query_plan, *used)
    assert texts
    assert all("plan_id" in text or "run_id" in text for text in texts), texts


@pytest.mark.parametrize("name", ["in trouble", "finished"])
def test_canceled_plans_are_looked_up_by_audit_entries(full: ServerDatabase, name: str) -> None:
    """With a hashed subplan, PostgreSQL would read all plan modifications of the org."""
    query_plan = explain(full, unbounded_reads()[name], "enable_seqscan = off")
    used = [i for i in used_indexes(query_plan) if i.startswith("audit_entry")]
    texts = conditions(query_plan, *used)
    assert texts
    assert all("subject_id" in text for text in texts), texts


def test_failed_and_stalled_plans_are_looked_up_by_id(full: ServerDatabase) -> None:
    """With another index, PostgreSQL would read all open plans and runs of the org."""
    query_plan = explain(full, unbounded_reads()["in trouble"], "enable_seqscan = off")
    texts = conditions(query_plan, "plan_pkey", "plan_open", "run_pkey", "run_open")
    assert len(texts) == 2, texts
    assert all(re.search(r"\(id = s\w*\.(plan|run)_id\)", text) for text in texts), texts


SEARCHES_BY_NAME = {
    "plan_word_pkey": plans_statement(
        PlanFilter(order=ListOrder.CREATION, all=True, text="river delta"), 20
    ),
    "run_word_pkey": runs_statement(RunFilter(order=ListOrder.CREATION, text="river delta"), 20),
}


@pytest.mark.parametrize("index", SEARCHES_BY_NAME)
def test_plan_or_run_search_by_name_finds_words_by_index(full: ServerDatabase, index: str) -> None:
    """Under row-level security, PostgreSQL uses an index only with leakproof operators."""
    query_plan = explain(full, SEARCHES_BY_NAME[index], "enable_seqscan = off")
    texts = conditions(query_plan, index)
    assert len(texts) == 3
    assert all("word" in text for text in texts), texts


#: For each kind of search hit, the full-text indexes that its query uses.
TEXT_INDEXES = {
    "plans": {"plan_words", "plan_brief_words"},
    "runs": {"run_words", "run_brief_words"},
    "steps": {"plan_step_words", "step_brief_words"},
    "results": {"step_result_words"},
    "documents": {"document_words"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_full_text_search_uses_index_or_reads_only_newest_rows(
    full: ServerDatabase, kind: str
) -> None:
    indexed = full.server.is_embedded
    query = TextQuery(text="river lake", before_last="river ", last="lake:*", beginnings="river:*")
    _, _, *statements = text_search_statements(query, 10, indexed=indexed)
    statement = dict(zip(KINDS, statements, strict=True))[kind]
    assert isinstance(statement, Statement)
    query_plan = explain(full, statement, *SETTINGS)
    assert {table for table, how in scans(query_plan) if how == "Seq Scan"} == set()
    if indexed:
        assert TEXT_INDEXES[kind] <= used_indexes(query_plan)
    else:
        # The newest rows are read in the order of the primary key, and no further.
        backwards = {
            node["Index Name"]
            for node in nodes(query_plan)
            if node["Node Type"] == "Index Scan" and node["Scan Direction"] == "Backward"
        }
        assert {name.removesuffix("_words") + "_pkey" for name in TEXT_INDEXES[kind]} == backwards


#: Number of plans to complete in the test of updates, and number of steps of each.
WORKED_PLANS, WORKED_STEPS = 100, 3


async def test_only_a_plan_status_change_updates_an_index(own_place: ServerDatabase) -> None:
    """Claim and submit 300 steps of plans whose status changes only at the start and at the end.

    The pages of the tables have free space, so that the new version of a row fits on the same page.
    On full pages, the number of index updates would also depend on concurrent transactions, which
    delay the removal of old row versions.
    """
    with psycopg.connect(own_place.owner_dsn) as owner:
        for table in ("plan", "plan_step"):
            owner.execute(f"alter table {table} set (fillfactor = 10)".encode())
    async with make_env(own_place) as world:
        for _ in range(WORKED_PLANS):
            await world.agent.work_through(await world.agent.plan(WORKED_STEPS))

    def updates() -> dict[str, tuple[int, int]]:
        with psycopg.connect(own_place.admin_dsn) as admin:
            rows = admin.execute(
                "select relname, n_tup_hot_upd, n_tup_upd from pg_stat_user_tables"
                " where relname in ('plan', 'plan_step')"
            ).fetchall()
        return {name: (hot, every) for name, hot, every in rows}

    # Each claim and each submit updates one step and one plan.
    least = 2 * WORKED_PLANS * WORKED_STEPS
    counts = eventually(
        lambda: updates() if all(n >= least for _, n in updates().values()) else None,
        "the server has counted",
    )
    assert counts is not None
    changed = {table: every - hot for table, (hot, every) in counts.items()}
    assert changed["plan"] <= 2 * WORKED_PLANS, counts
    assert changed["plan_step"] == 0, counts
