"""Lookups shared by tools: ids, and the plan that was asked for."""

from waybook.errors import NextCall, NotFound
from waybook.plan.model import Plan
from waybook.store.driver.connection import Results
from waybook.store.driver.ids import is_id
from waybook.store.plans import load
from waybook.store.plans.load import LoadedPlan, PlanRequest

#: An id that is nobody's.
NIL_ID = "00000000-0000-0000-0000-000000000000"


def id_or_nil(row_id: str) -> str:
    """An id we could have given out; any other text is an id that nobody has."""
    return row_id if is_id(row_id) else NIL_ID


def require_plan(found: Results, wanted: PlanRequest, step_id: str | None = None) -> LoadedPlan:
    """The plan that was loaded, with the step that was named, if one was.

    Raises:
        NotFound: it is not there; or the step is not there any more.
    """
    loaded = load.read_plan(found, wanted)
    if loaded is None:
        raise not_found("plan")
    if not _has_step(loaded.plan, step_id):
        raise not_found("step")
    return loaded


def _has_step(plan: Plan, step_id: str | None) -> bool:
    return step_id is None or any(step.id == step_id.lower() for step in plan.steps)


def not_found(what: str) -> NotFound:
    """The answer for an id that is not there, the same whosever it may be."""
    return NotFound(
        f"there is no {what} with this id here",
        next_call=NextCall("list_active_plans", {}, "see the plans there are"),
    )
