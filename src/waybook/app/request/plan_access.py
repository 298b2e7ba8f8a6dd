"""Access to plans that tools share: lookups by id, loading, and caching of step ids."""

from waybook.app.request.request_context import RequestContext, id_or_nil, not_found
from waybook.core.short_ids import IdKind
from waybook.plan.model import Plan
from waybook.plan.states import TERMINAL_STEP
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement, first_value
from waybook.store.plans import load
from waybook.store.plans.load import LoadedPlan, PlanRequest


def require_plan(results: Results, wanted: PlanRequest, step_id: str | None = None) -> LoadedPlan:
    """Return the loaded plan. If `step_id` is given, the plan must have this step.

    Raises:
        NotFound: the plan does not exist, or the step was removed.
    """
    loaded = load.read_plan(results, wanted)
    if loaded is None:
        raise not_found("plan")
    if not _has_step(loaded.plan, step_id):
        raise not_found("step")
    return loaded


def _has_step(plan: Plan, step_id: str | None) -> bool:
    return step_id is None or any(step.id == step_id.lower() for step in plan.steps)


async def load_plan(
    ctx: RequestContext, wanted: PlanRequest, *more: Statement
) -> tuple[LoadedPlan, Results]:
    """Return a plan without a lock, and the results of `more`."""
    statements = load.snapshot_statements(wanted)
    results = await ctx.read(*statements, *more)
    return require_plan(results[: len(statements)], wanted), results[len(statements) :]


async def plan_of_step(ctx: RequestContext, step_id: str) -> str:
    """Return the plan that a step belongs to.

    Raises:
        NotFound: there is no such step.
    """
    step_id = id_or_nil(step_id).lower()
    remembered = ctx.services.step_parents.get(ctx.caller.org_id, step_id)
    if remembered is not None:
        return remembered
    (rows,) = await ctx.read(load.plan_of_step_statement(step_id))
    if not rows:
        raise not_found("step")
    plan_id: str = first_value(rows)
    ctx.cache_step_plan(step_id, plan_id)
    return plan_id


def cache_steps(ctx: RequestContext, plan: Plan) -> None:
    """Cache the ids of a plan's open steps, because later calls may name them."""
    org_id, services = ctx.caller.org_id, ctx.services
    open_steps = [step.id for step in plan.steps if step.status not in TERMINAL_STEP]
    # Open steps are cached together, so looking for the last one is enough.
    if open_steps and services.step_parents.get(org_id, open_steps[-1]) is None:
        for step_id in open_steps:
            ctx.cache_step_plan(step_id, plan.id)
            services.short_ids.add(org_id, IdKind.STEP, step_id)
