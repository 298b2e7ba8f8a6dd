"""Order of a plan's steps, and dependencies between them.

Positions are 1..n without gaps after every insertion, removal and move. A step can be claimed when
all its dependencies are finished. Dependencies are stored as step ids, so they stay correct when
steps move. Without dependencies, steps are claimed in order.
"""

from collections.abc import Sequence

from waybook.errors import InvalidInput, InvalidStepReference, StalePlan
from waybook.plan.model import NewStep, Plan, Step, StepId


def renumber(steps: tuple[Step, ...], after: int, by: int) -> tuple[Step, ...]:
    return tuple(
        step._replace(order=step.order + by) if step.order > after else step for step in steps
    )


def insertion_point(plan: Plan, after: int | None) -> int:
    """Return the position after which to insert: `after`, or the last one.

    Raises:
        InvalidStepReference: the plan has no step at this position.
    """
    last = len(plan.steps)
    if after is None:
        return last
    if not 0 <= after <= last:
        raise InvalidStepReference(
            f"cannot insert after step {after}: the steps of this plan are numbered 1 to {last} (0 "
            "inserts at the beginning)",
            insertAfterOrder=after,
            totalSteps=last,
        )
    return after


def validate_order(plan: Plan, ids: list[StepId]) -> list[StepId]:
    """Check that the list has every step of the plan exactly once, and return it.

    Raises:
        StalePlan: an id is missing, unknown or listed twice.
    """
    current = {step.id for step in plan.steps}
    if len(ids) != len(set(ids)) or set(ids) != current:
        raise StalePlan(
            "reorder_steps must name every step of the plan exactly once; the plan may have "
            "changed since you read it",
            missing=sorted(current - set(ids)),
            unknown=sorted(set(ids) - current),
            repeated=sorted({i for i in ids if ids.count(i) > 1}),
        )
    return ids


def resolve_dependencies(
    made: Sequence[Step], new_steps: Sequence[NewStep], steps: Sequence[Step]
) -> list[Step]:
    """Convert the dependencies of new steps from positions to step ids.

    Raises:
        InvalidStepReference: a position does not exist, or a step depends on itself.
    """
    tied = [
        step._replace(depends_on=tuple(_step_at(steps, order) for order in new.depends_on))
        for step, new in zip(made, new_steps, strict=True)
    ]
    if any(step.depends_on for step in tied):
        fresh = {step.id: step for step in tied}
        _refuse_circles([fresh.get(step.id, step) for step in steps])
    return tied


def changed_dependencies(
    steps: Sequence[Step], step: Step, orders: Sequence[int]
) -> tuple[StepId, ...]:
    """Return the ids of the steps at these positions, as new dependencies of a step.

    Raises:
        InvalidStepReference: a position does not exist, or the dependencies form a cycle.
    """
    ids = tuple(dict.fromkeys(_step_at(steps, order) for order in orders))
    _refuse_circles([s._replace(depends_on=ids) if s.id == step.id else s for s in steps])
    return ids


def reject_branch_dependencies(steps: Sequence[NewStep]) -> None:
    """Check that the steps that a branch may add have no dependencies.

    Dependencies are positions, which are not yet known for these steps.

    Raises:
        InvalidInput: one of the steps has dependencies.
    """
    if any(step.depends_on for step in steps):
        raise InvalidInput(
            "a step that a branch adds cannot have dependsOn: step numbers are not known yet",
            argument="actionParams.steps",
        )


def _step_at(steps: Sequence[Step], order: int) -> StepId:
    if not 1 <= order <= len(steps):
        raise InvalidStepReference(
            f"dependsOn names step {order}, but the steps are numbered 1 to {len(steps)}",
            argument="dependsOn",
            given=order,
            totalSteps=len(steps),
        )
    return steps[order - 1].id


def _refuse_circles(steps: Sequence[Step]) -> None:
    """Raise an error if the dependencies between steps form a cycle."""
    left = {step.id: len(set(step.depends_on)) for step in steps}
    behind: dict[StepId, list[StepId]] = {step.id: [] for step in steps}
    for step in steps:
        for before in set(step.depends_on):
            behind[before].append(step.id)
    free = [step_id for step_id, waits in left.items() if not waits]
    while free:
        for step_id in behind[free.pop()]:
            left[step_id] -= 1
            if not left[step_id]:
                free.append(step_id)
    orders = [step.order for step in steps if left[step.id]]
    if orders:
        raise InvalidStepReference(
            f"dependsOn has a cycle (steps: {', '.join(map(str, orders))})",
            argument="dependsOn",
            stepOrders=orders,
        )
