"""Orders the steps of a plan, and checks the dependencies between them.

The positions of the steps are 1 to n without gaps. Dependencies are stored as step ids, so they
stay correct when steps move.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from waybook.errors import InvalidStepReference, StalePlan
from waybook.plan.model import (
    TERMINAL_STEP,
    Condition,
    NewCondition,
    NewStep,
    Plan,
    Step,
    StepId,
    StepStatus,
)
from waybook.plan.touches import HeldTouches


def first_ready(plan: Plan) -> Step | None:
    return next(ready_steps(plan), None)


def ready_steps(plan: Plan, blocked: dict[StepId, Step] | None = None) -> Iterator[Step]:
    """Yield the pending steps that can be claimed.

    A step that only waits because it touches the same files as a step that an agent has is added to
    `blocked`, with that other step.
    """
    ended = {step.id for step in plan.steps if step.status in TERMINAL_STEP}
    is_open_before, held = False, None
    for step in plan.steps:
        if step.id in ended:
            continue
        is_free = ended.issuperset(step.depends_on)
        has_turn = bool(step.depends_on) or not (plan.sequential and is_open_before)
        if step.status is StepStatus.PENDING and is_free and has_turn:
            other = None
            if step.touches:
                held = held or HeldTouches(plan)
                other = held.overlapping(step)
            if other is None:
                yield step
            elif blocked is not None:
                blocked[step.id] = other
        is_open_before |= is_free or step.status is not StepStatus.PENDING


def steps_blocked_by_touches(plan: Plan) -> list[tuple[Step, Step]]:
    """Return the steps that wait only because of what they touch, each with one it waits for."""
    blocked: dict[StepId, Step] = {}
    for _ in ready_steps(plan, blocked):
        pass
    return [(plan.step(step_id), other) for step_id, other in blocked.items()]


def insertion_point(plan: Plan, after: int | None) -> int:
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
    """Check that the list has every step of the plan exactly once, and return the list."""
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
        InvalidStepReference: a position does not exist, or the dependencies form a cycle.
    """
    tied = [
        step._replace(
            depends_on=(*(_step_at(steps, n) for n in new.depends_on), *new.depends_on_ids)
        )
        for step, new in zip(made, new_steps, strict=True)
    ]
    fresh = {step.id: step.depends_on for step in tied}
    if any(fresh.values()):
        refuse_cycles({step.id: fresh.get(step.id, step.depends_on) for step in steps})
    return tied


def steps_before(steps: Sequence[Step], ids: Iterable[StepId]) -> set[StepId]:
    """Return all steps that these steps depend on, directly or indirectly."""
    dependencies = {step.id: step.depends_on for step in steps}
    reached: set[StepId] = set()
    waiting = [before for step_id in ids for before in dependencies[step_id]]
    while waiting:
        step_id = waiting.pop()
        if step_id not in reached:
            reached.add(step_id)
            waiting.extend(dependencies[step_id])
    return reached


#: First character of a reference. A reference stands for a step that has no id yet.
_REFERENCE_MARK = "+"


def added_reference(level: int, number: int) -> StepId:
    """Return a reference to a step that a condition will add and that has no id yet.

    `level` is the nesting depth of the condition, and `number` the position of the step in it.
    """
    return StepId(f"{_REFERENCE_MARK}{level}.{number}")


def resolve_reference(step_id: StepId, added: Sequence[StepId]) -> StepId:
    """Return the id of the step that a reference stands for. An id is returned unchanged."""
    if not step_id.startswith(_REFERENCE_MARK):
        return step_id
    level, number = map(int, step_id.removeprefix(_REFERENCE_MARK).split("."))
    return added[number - 1] if level == 1 else added_reference(level - 1, number)


def replace_ids(steps: Iterable[NewStep], new_id: Callable[[StepId], StepId]) -> Iterator[NewStep]:
    """Yield copies of the new steps in which `new_id` has replaced every step id."""
    for step in steps:
        yield replace(
            step,
            depends_on_ids=tuple(map(new_id, step.depends_on_ids)),
            conditions=tuple(with_new_ids(inner, new_id) for inner in step.conditions),
        )


_ConditionT = TypeVar("_ConditionT", Condition, NewCondition)


def with_new_ids(condition: _ConditionT, new_id: Callable[[StepId], StepId]) -> _ConditionT:
    """Return a copy of a condition in which `new_id` has replaced the ids of other steps."""
    target, first = condition.target_step_id, condition.from_step_id
    return replace(
        condition,
        target_step_id=new_id(target) if target else None,
        from_step_id=new_id(first) if first else None,
        steps=tuple(replace_ids(condition.steps, new_id)),
    )


def named_steps(steps: Iterable[NewStep]) -> Iterator[StepId]:
    """Yield the ids of all steps that the new steps depend on or skip to."""
    for step in steps:
        yield from step.depends_on_ids
        for condition in step.conditions:
            if condition.target_step_id:
                yield condition.target_step_id
            yield from named_steps(condition.steps)


def changed_dependencies(
    steps: Sequence[Step], step: Step, orders: Sequence[int]
) -> tuple[StepId, ...]:
    ids = tuple(dict.fromkeys(_step_at(steps, order) for order in orders))
    refuse_cycles({**{other.id: other.depends_on for other in steps}, step.id: ids})
    return ids


def _step_at(steps: Sequence[Step], order: int) -> StepId:
    if not 1 <= order <= len(steps):
        raise InvalidStepReference(
            f"dependsOn names step {order}, but the steps are numbered 1 to {len(steps)}",
            argument="dependsOn",
            given=order,
            totalSteps=len(steps),
        )
    return steps[order - 1].id


def refuse_cycles(dependencies: Mapping[StepId, Sequence[StepId]]) -> None:
    """Check that the dependencies of a plan's steps, in plan order, form no cycle.

    Raises:
        InvalidStepReference: they form a cycle.
    """
    left, count = dict(dependencies), -1
    while len(left) != count:
        count = len(left)
        for step_id, before in dependencies.items():
            if left.keys().isdisjoint(before):
                left.pop(step_id, None)
    orders = [order for order, step_id in enumerate(dependencies, 1) if step_id in left]
    if orders:
        raise InvalidStepReference(
            f"dependsOn has a cycle (steps: {', '.join(map(str, orders))})",
            argument="dependsOn",
            stepOrders=orders,
        )
