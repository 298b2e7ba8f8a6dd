"""What the plan's status should be, judged by its steps alone."""

from collections.abc import Collection

from waybook.plan.states import TERMINAL_STEP, PlanStatus, StepStatus


def derive_plan_status(steps: Collection[StepStatus]) -> PlanStatus:
    """Derive the plan's status. The rules hold in this order, and the order matters.

    A failed step is over like a completed one: failed steps never fail a plan.

    >>> derive_plan_status([StepStatus.FAILED, StepStatus.AWAITING_INPUT])
    <PlanStatus.AWAITING_REVIEW: 'awaiting_review'>
    >>> derive_plan_status([StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED])
    <PlanStatus.COMPLETED: 'completed'>
    """
    if not steps:
        return PlanStatus.PLANNING
    if StepStatus.AWAITING_INPUT in steps:
        return PlanStatus.AWAITING_REVIEW
    if all(step in TERMINAL_STEP for step in steps):
        return PlanStatus.COMPLETED
    return PlanStatus.EXECUTING
