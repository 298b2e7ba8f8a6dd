"""Finds plans and runs by the id of a step or job, and loads them without a lock."""

from collections.abc import Callable, Sequence
from functools import partial

from waybook.app.request.definition_cache import DefinitionCache, compile_stored
from waybook.app.request.request_context import CLAIM_JOB, LIST_WORKFLOWS, RequestContext, not_found
from waybook.core.ids import id_or_nil
from waybook.errors import NotFound
from waybook.plan.model import TERMINAL_STEP, Plan
from waybook.run.model import CompiledDag, Job
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, first_value
from waybook.store.parent_cache import ParentCache
from waybook.store.plans import load as plans
from waybook.store.plans.load import LoadedPlan, PlanRequest
from waybook.store.runs import jobs
from waybook.store.runs import load as runs
from waybook.store.runs.load import LOAD_STATEMENT_COUNT, LoadedRun


def require_plan(results: Results, wanted: PlanRequest, step_id: str | None = None) -> LoadedPlan:
    """Build the plan from the rows that `plans.load_statements` returned.

    Raises:
        NotFound: the plan does not exist, or has no step `step_id`.
    """
    loaded = plans.read_plan(results, wanted)
    if loaded is None:
        raise not_found("plan")
    if step_id is not None and all(step.id != step_id for step in loaded.plan.steps):
        raise not_found("step")
    return loaded


async def load_plan(
    ctx: RequestContext, wanted: PlanRequest, *more: Statement
) -> tuple[LoadedPlan, Results]:
    """Load a plan without locking it. Return the plan, and the results of the statements `more`."""
    statements = plans.load_statements(wanted)
    results = await ctx.read(*statements, *more)
    return require_plan(results[: len(statements)], wanted), results[len(statements) :]


async def _parent(
    ctx: RequestContext,
    cache: ParentCache,
    child_id: str,
    lookup: Callable[[], Statement],
    missing: Callable[[], NotFound],
) -> str:
    remembered = cache.get(ctx.caller.org_id, child_id)
    if remembered is not None:
        return remembered
    (rows,) = await ctx.read(lookup())
    if not rows:
        raise missing()
    parent_id: str = first_value(rows)
    cache.put(ctx.caller.org_id, child_id, parent_id)
    return parent_id


async def plan_of_step(ctx: RequestContext, step_id: str) -> str:
    lookup = partial(plans.SQL["plan_of_step"], step_id=step_id)
    missing = partial(not_found, "step")
    return await _parent(ctx, ctx.services.step_parents, step_id, lookup, missing)


async def run_of_job(ctx: RequestContext, job_id: str) -> str:
    lookup = partial(runs.SQL["run_of_job"], job_id=job_id)
    return await _parent(ctx, ctx.services.job_parents, job_id, lookup, job_not_found)


def cache_steps(ctx: RequestContext, plan: Plan) -> None:
    """Cache the plan id of each open step, because later calls may name only a step."""
    org_id, services = ctx.caller.org_id, ctx.services
    open_steps = [step.id for step in plan.steps if step.status not in TERMINAL_STEP]
    # All open steps of a plan are cached together, so check only whether the last one is cached.
    if open_steps and services.step_parents.get(org_id, open_steps[-1]) is None:
        for step_id in open_steps:
            ctx.cache_step_plan(step_id, plan.id)


async def load_run(
    ctx: RequestContext, run_id: str, *more: Statement
) -> tuple[LoadedRun, CompiledDag, Results]:
    """Load a run without locking it. Return the run, its workflow, and the results of `more`."""
    results = await ctx.read(*runs.load_statements(id_or_nil(run_id)), *more)
    loaded = runs.read_run(results)
    if loaded is None:
        raise run_not_found()
    compiled_dag = await load_definition(ctx, loaded.dag_slug, loaded.dag_version)
    return loaded, compiled_dag, results[LOAD_STATEMENT_COUNT:]


async def load_definition(
    ctx: RequestContext, slug: str, version: int, tx: Transaction | None = None
) -> CompiledDag:
    org_id, cache = ctx.caller.org_id, ctx.services.shared(DefinitionCache)
    compiled_dag = cache.get(org_id, slug, version)
    if compiled_dag is None:
        statement = runs.SQL["definition"](slug=slug, version=version)
        (rows,) = await (ctx.read(statement) if tx is None else tx.send(statement))
        compiled_dag = cache.put(org_id, compile_stored(rows[0][2], rows[0][0]))
    return compiled_dag


async def current_definition(ctx: RequestContext, slug: str) -> CompiledDag:
    """Return the definition that new runs of a workflow use."""
    (rows,) = await ctx.read(runs.SQL["definition"](slug=slug, version=None))
    return ctx.services.shared(DefinitionCache).current(ctx.caller.org_id, slug, rows)


def run_not_found() -> NotFound:
    return not_found("run", LIST_WORKFLOWS)


def job_not_found() -> NotFound:
    return not_found("job", CLAIM_JOB)


def require_job(rows: Sequence[Job]) -> Job:
    job = jobs.first_job(rows)
    if job is None:
        raise job_not_found()
    return job
