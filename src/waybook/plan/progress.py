"""Progress: counts that add up, and a percentage that never claims more than they say."""

from collections.abc import Collection

from waybook.plan.model import Plan, Step
from waybook.plan.states import DONE_STEP, PlanStatus, StepStatus


def percent(done: int, total: int) -> int:
    """The share done in whole percent, rounded half up; nothing of nothing is 0.

    >>> percent(3, 13), percent(1, 8), percent(199, 200), percent(0, 0)
    (23, 13, 100, 0)
    """
    return (200 * done + total) // (2 * total) if total else 0


def count_done(statuses: Collection[StepStatus]) -> int:
    """How many steps are completed or skipped. This number never falls."""
    return sum(status in DONE_STEP for status in statuses)


def current_step(plan: Plan) -> Step | None:
    """The step to look at: the one awaiting input, else the first in progress."""
    waiting = next(plan.steps_with_status(StepStatus.AWAITING_INPUT), None)
    return waiting or next(plan.steps_with_status(StepStatus.IN_PROGRESS), None)


def plan_outcome(status: PlanStatus, statuses: Collection[StepStatus]) -> str | None:
    """How a closed plan ended; None while it is open."""
    if status is PlanStatus.FAILED:
        return "failed"
    if status is PlanStatus.COMPLETED:
        return "completed_with_failures" if StepStatus.FAILED in statuses else "completed"
    return None
