"""Lookups shared by tools: ids, and the requested plan."""

from waybook.errors import NextCall, NotFound
from waybook.plan.model import Plan
from waybook.store.driver.connection import Results
from waybook.store.driver.ids import is_id
from waybook.store.plans import load
from waybook.store.plans.load import LoadedPlan, PlanRequest

#: Id that no row has.
NIL_ID = "00000000-0000-0000-0000-000000000000"


def id_or_nil(row_id: str) -> str:
    """Return the id if it is well-formed, else the nil id, which no row has."""
    return row_id if is_id(row_id) else NIL_ID


def require_plan(results: Results, wanted: PlanRequest, step_id: str | None = None) -> LoadedPlan:
    """Return the loaded plan; check that it has the named step, if one was named.

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


def not_found(what: str) -> NotFound:
    """Return the error for a missing id, the same if it exists in another org."""
    return NotFound(
        f"there is no {what} with this id here",
        next_call=NextCall("list_active_plans", {}, "see the plans there are"),
    )
