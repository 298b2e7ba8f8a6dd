"""The refusals several rules share, each with the call that is safe to make instead."""

from waybook.errors import NextCall, PlanTerminal
from waybook.plan.model import Plan
from waybook.plan.states import CLOSED_PLAN


def status_call(plan: Plan, why: str) -> NextCall:
    """The safe next call after most refusals: look where the plan stands."""
    return NextCall("get_plan_status", {"planId": plan.id}, why)


def require_open(plan: Plan) -> None:
    """Let only open plans pass.

    Raises:
        PlanTerminal: the plan is completed or failed.
    """
    if plan.status in CLOSED_PLAN:
        raise PlanTerminal(
            f"this plan is {plan.status} and takes no more changes; its steps stay as they were",
            next_call=status_call(plan, "read how the plan ended; to go on, create a new plan"),
            planId=plan.id,
            status=str(plan.status),
            reason=plan.fail_reason,
        )
