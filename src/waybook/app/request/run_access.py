"""Access to runs that tools share: lookups by id, and loading with the definition."""

from dataclasses import dataclass

from waybook.app.request.definition_cache import DefinitionCache, compile_definition
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.errors import NextCall, NotFound
from waybook.run.model import CompiledDag
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, first_value
from waybook.store.runs import jobs as jobs_store
from waybook.store.runs import load
from waybook.store.runs.load import LOAD_STATEMENT_COUNT, LoadedRun


@dataclass(frozen=True, slots=True)
class UnlockedRun:
    loaded: LoadedRun
    compiled_dag: CompiledDag
    results: Results


async def load_run(ctx: RequestContext, run_id: str, *more: Statement) -> UnlockedRun:
    """Return a run without a lock, and the results of `more`.

    Raises:
        NotFound: the run does not exist, or belongs to another org.
    """
    results = await ctx.read(*load.snapshot_statements(id_or_nil(run_id)), *more)
    loaded = load.read_run(results)
    if loaded is None:
        raise run_not_found()
    compiled_dag = await load_definition(ctx, loaded.dag_slug, loaded.dag_version)
    return UnlockedRun(loaded, compiled_dag, results[LOAD_STATEMENT_COUNT:])


async def load_definition(
    ctx: RequestContext, slug: str, version: int, tx: Transaction | None = None
) -> CompiledDag:
    org_id, cache = ctx.caller.org_id, ctx.services.shared(DefinitionCache)
    compiled_dag = cache.get(org_id, slug, version)
    if compiled_dag is None:
        statement = load.definition_statement(slug, version)
        (rows,) = await (ctx.read(statement) if tx is None else tx.send(statement))
        compiled_dag = cache.put(org_id, compile_definition(rows[0][2], rows[0][0]))
    return compiled_dag


async def run_of_job(ctx: RequestContext, job_id: str) -> str:
    """Return the run that a job belongs to.

    Raises:
        NotFound: there is no such job.
    """
    job_id = id_or_nil(job_id).lower()
    remembered = ctx.services.job_parents.get(ctx.caller.org_id, job_id)
    if remembered is not None:
        return remembered
    (rows,) = await ctx.read(jobs_store.run_of_job_statement(job_id))
    if not rows:
        raise job_not_found()
    run_id: str = first_value(rows)
    ctx.services.job_parents.put(ctx.caller.org_id, job_id, run_id)
    return run_id


def run_not_found() -> NotFound:
    return NotFound(
        "there is no run with this id here",
        next_call=NextCall("list_dags", {}, "List the workflows and runs."),
    )


def job_not_found() -> NotFound:
    return NotFound(
        "there is no job with this id here",
        next_call=NextCall("get_next_job", {}, "Claim a job."),
    )
