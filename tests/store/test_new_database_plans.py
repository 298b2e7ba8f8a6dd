"""Frequent queries on a new database, without statistics: they use the intended indexes.

On a new database, a connection keeps the query plan that it made first, until the tables are
analyzed.
"""

from collections.abc import Iterator

import pytest

from postgres_servers import Server, ServerDatabase, new_database
from query_plans import explain, used_indexes
from store.test_runs_speed import ANY, HOT, SELECT_1, hot, plan
from store.test_speed import ME, unbounded_reads
from waybook.app.queries.work_list import (
    ListOrder,
    PlanFilter,
    RunFilter,
    plans_statement,
    runs_statement,
)
from waybook.store.driver.queries import Query, Statement, new_id, new_uuid
from waybook.store.plans import lists, load
from waybook.store.plans.load import PlanRequest
from waybook.store.runs import cache, jobs
from waybook.store.runs import load as run_load
from waybook.store.runs.jobs import JobRequest

#: Settings of all the server's connections, as in `set_session` of `driver/wire.sql`.
SESSION = ("enable_seqscan = off", "jit = off")


@pytest.fixture(scope="module")
def fresh(server: Server) -> Iterator[ServerDatabase]:
    """Yield a new database without rows and without statistics."""
    with new_database(server) as place:
        yield place


@pytest.mark.parametrize("settings", [SESSION, ()], ids=["session", "default"])
@pytest.mark.parametrize("request_", [ANY, SELECT_1], ids=["any", "model"])
def test_claimable_jobs_are_read_by_index_without_statistics(
    fresh: ServerDatabase, request_: JobRequest, settings: tuple[str, ...]
) -> None:
    """With another index, reading and sorting all jobs of the run would take 4.5 to 6.6 ms."""
    index = "job_open" if request_.model is None else "job_open_for_model"
    for statement in (
        jobs.claimable_statement(new_id(), request_),
        cache.free_jobs_statement(new_id(), request_, cache.FREE_JOB_COUNT),
    ):
        nodes = plan(fresh, statement, *settings)
        assert index in {node.through for node in nodes}, nodes
        assert "Sort" not in {node.kind for node in nodes}, nodes


@pytest.mark.parametrize("settings", [SESSION, ()], ids=["session", "default"])
@pytest.mark.parametrize("name", ["run_of_job", "load_job", "lock_run", "load_steps", "run_brief"])
def test_frequent_run_query_uses_primary_key_without_statistics(
    fresh: ServerDatabase, name: str, settings: tuple[str, ...]
) -> None:
    """With an index that begins with the org, the query would read all rows of the org."""
    statement = hot(new_id(), new_id(), new_id())[name]
    assert HOT[name][0] in {node.through for node in plan(fresh, statement, *settings)}


@pytest.mark.parametrize("settings", [SESSION, ()], ids=["session", "default"])
def test_lookup_by_id_uses_the_primary_key_without_statistics(
    fresh: ServerDatabase, settings: tuple[str, ...]
) -> None:
    """With an index that begins with the org, the query would read all rows of the org."""
    lock = load.load_statements(PlanRequest(plan_id=new_id(), holder=ME), lock=True)[0]
    assert {"plan_pkey", "plan_brief_pkey"} <= used_indexes(explain(fresh, lock, *settings))
    step = load.SQL["plan_of_step"](step_id=new_id())
    assert used_indexes(explain(fresh, step, *settings)) == {"plan_step_pkey"}
    document = Query("document", "select content from document where id = %(id)s")(id=new_uuid())
    assert used_indexes(explain(fresh, document, *settings)) == {"document_pkey"}


#: For each query about all plans or runs, the indexes that limit how many rows it reads.
LIMITING_INDEXES = {
    "waiting for a person": {"review_waiting", "run_awaiting"},
    "in trouble": {"plan_status", "plan_step_failed", "plan_failed", "stage_step_failed"},
    "running": {"plan_open_activity", "run_open_activity"},
    "finished": {"plan_ended", "run_completed", "run_canceled"},
    "totals": {
        *("plan_status", "plan_ended", "plan_pkey", "run_open_activity", "run_completed"),
        *("run_canceled", "run_pkey"),
    },
    "counts": {"plan_status"},
    "plans to check for stalls": {"plan_stall_check"},
    "waiting": {"review_waiting", "run_awaiting"},
    "waiting runs": {"run_awaiting"},
    "plans by name": {"plan_word_pkey"},
    "runs by name": {"run_word_pkey", "run_pkey"},
    "runs by activity": {"run_open_activity", "run_ended_activity"},
}


def limited_reads() -> dict[str, Statement]:
    """Return the queries that, without an index, would read all plans or runs."""
    named = PlanFilter(order=ListOrder.CREATION, all=True, text="river delta")
    return {
        **unbounded_reads(),
        "waiting": lists.SQL["waiting"](most=1_000),
        "waiting runs": run_load.SQL["awaiting_runs"](most=10),
        "plans by name": plans_statement(named, 20),
        "runs by name": runs_statement(RunFilter(order=ListOrder.CREATION, text="river delta"), 20),
        "runs by activity": runs_statement(RunFilter(order=ListOrder.ACTIVITY), 20),
    }


@pytest.mark.parametrize("name", LIMITING_INDEXES)
def test_query_about_all_plans_or_runs_uses_index_without_statistics(
    fresh: ServerDatabase, name: str
) -> None:
    query_plan = explain(fresh, limited_reads()[name], *SESSION)
    assert LIMITING_INDEXES[name] <= used_indexes(query_plan)
