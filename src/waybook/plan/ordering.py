"""Places of steps: 1..n, contiguous, whatever is inserted, removed or moved."""

from waybook.errors import InvalidStepReference, StalePlan
from waybook.plan.model import Plan, Step, StepId


def renumber(steps: tuple[Step, ...], after: int, by: int) -> tuple[Step, ...]:
    """Move every step behind the order `after` up by `by` places."""
    return tuple(
        step._replace(order=step.order + by) if step.order > after else step for step in steps
    )


def insertion_point(plan: Plan, after: int | None) -> int:
    """The order to insert behind: the one given, else the last.

    Raises:
        InvalidStepReference: there is no such place.
    """
    last = len(plan.steps)
    if after is None:
        return last
    if not 0 <= after <= last:
        raise InvalidStepReference(
            f"cannot insert after order {after}: this plan has the orders 1 to {last} "
            "(0 inserts at the beginning)",
            insertAfterOrder=after,
            totalSteps=last,
        )
    return after


def validate_order(plan: Plan, ids: list[StepId]) -> list[StepId]:
    """These ids, if they are exactly the plan's steps.

    Raises:
        StalePlan: one is missing, unknown or named twice.
    """
    current = {step.id for step in plan.steps}
    if len(ids) != len(set(ids)) or set(ids) != current:
        raise StalePlan(
            "reorder_steps needs every step of the plan exactly once, and the plan's steps are "
            "not the ones named: it may have changed since you looked",
            missing=sorted(current - set(ids)),
            unknown=sorted(set(ids) - current),
            repeated=sorted({i for i in ids if ids.count(i) > 1}),
        )
    return ids
