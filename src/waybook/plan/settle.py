"""After every mutation: walk the stored status to the one the steps derive.

Where the table has no direct edge the walk goes over `executing`. Two stored statuses say more
than the steps can: `planning` while every step is pending, and `stalled` while work goes on.
"""

from waybook.plan.derive import derive_plan_status
from waybook.plan.draft import Draft
from waybook.plan.states import CLOSED_PLAN, PlanStatus, StepStatus, can_move_plan


def settle(draft: Draft) -> None:
    """Bring the plan's status to where its steps say it is. A closed plan stays as it is."""
    status, statuses = draft.plan.status, draft.plan.statuses()
    target = derive_plan_status(statuses)
    if status in CLOSED_PLAN or _says_more(status, target, statuses):
        return
    draft.move_plan(*transition_path(status, target))


def transition_path(status: PlanStatus, target: PlanStatus) -> tuple[PlanStatus, ...]:
    """The documented edges from one status to another.

    >>> transition_path(PlanStatus.PLANNING, PlanStatus.COMPLETED)
    (<PlanStatus.EXECUTING: 'executing'>, <PlanStatus.COMPLETED: 'completed'>)
    """
    if status is target:
        return ()
    if can_move_plan(status, target):
        return (target,)
    return (PlanStatus.EXECUTING, target)


def is_derivable(status: PlanStatus, statuses: list[StepStatus]) -> bool:
    """Whether a stored status is one these steps allow."""
    target = derive_plan_status(statuses)
    return status in {target, PlanStatus.FAILED} or _says_more(status, target, statuses)


def _says_more(status: PlanStatus, target: PlanStatus, statuses: list[StepStatus]) -> bool:
    if status is PlanStatus.PLANNING:
        return all(step is StepStatus.PENDING for step in statuses)
    return status is PlanStatus.STALLED and target is PlanStatus.EXECUTING
