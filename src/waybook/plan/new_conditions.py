"""Checks the conditions of new steps, and replaces step positions in them by step ids."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from waybook.conditions.condition import Condition as Expression
from waybook.conditions.condition import compile_condition
from waybook.errors import InvalidInput, InvalidStepReference, TooLarge
from waybook.plan.model import (
    MAX_CONDITIONS,
    MAX_REPEATS,
    MAX_STEPS,
    BranchAction,
    NewCondition,
    StepId,
)
from waybook.plan.ordering import added_reference, refuse_cycles


@lru_cache(maxsize=1024)
def compile_expression(source: str) -> Expression:
    return compile_condition(source)


def check_size(steps: int, conditions: int = 0) -> None:
    for count, most, what in (
        (steps, MAX_STEPS, "steps"),
        (conditions, MAX_CONDITIONS, "branching conditions"),
    ):
        if count > most:
            raise TooLarge(
                f"a plan may have at most {most} {what}; this one would have {count}",
                limit=most,
                asked=count,
            )


def resolve_positions(
    new: NewCondition, ids: Sequence[StepId], order: int, level: int = 1
) -> NewCondition:
    """Replace the positions in a condition by step ids, also within the steps that it may add.

    `ids` are the plan's steps in plan order, and `order` is the position of the condition's step.

    Raises:
        InvalidInput: a parameter of the action is missing.
        InvalidStepReference: the condition names a position that does not exist.
        BadExpression: the expression does not compile.
    """
    compile_expression(new.expression)
    target, first = new.target_step_id, new.from_step_id
    if new.action is BranchAction.SKIP_TO and target is None:
        target = step_at(ids, new.target_step_order, "actionParams.targetStepOrder")
        if (new.target_step_order or 0) <= order:
            raise InvalidStepReference(
                "skip_to only skips forward: actionParams.targetStepOrder is "
                f"{new.target_step_order}, but the condition belongs to step {order}; to do steps "
                "again, use repeat",
                argument="actionParams.targetStepOrder",
                given=new.target_step_order,
                stepOrder=order,
            )
    if new.action is BranchAction.REPEAT:
        if new.max_repeats is None or not 1 <= new.max_repeats <= MAX_REPEATS:
            raise InvalidInput(
                f"a repeat branch needs actionParams.max, from 1 to {MAX_REPEATS}",
                argument="actionParams.max",
            )
        if first is None and new.from_step_order is not None:
            first = step_at(ids, new.from_step_order, "actionParams.fromStepOrder")
    if new.action is BranchAction.ADD_STEPS and not new.steps:
        raise InvalidInput(
            "an add_steps branch needs actionParams.steps with at least one step",
            argument="actionParams.steps",
        )
    added = [added_reference(level, number) for number in range(1, len(new.steps) + 1)]
    after = (*ids[:order], *added, *ids[order:])
    steps = tuple(
        replace(
            step,
            depends_on=(),
            depends_on_ids=(
                *step.depends_on_ids,
                *(step_at(after, n, "dependsOn") for n in step.depends_on),
            ),
            conditions=tuple(
                resolve_positions(c, after, place, level + 1) for c in step.conditions
            ),
        )
        for place, step in enumerate(new.steps, order + 1)
    )
    before_added = {
        step_id: step.depends_on_ids for step_id, step in zip(added, steps, strict=True)
    }
    if any(before_added.values()):
        refuse_cycles({step_id: before_added.get(step_id, ()) for step_id in after})
    return replace(new, target_step_id=target, from_step_id=first, steps=steps)


def step_at(ids: Sequence[StepId], order: int | None, argument: str) -> StepId:
    if order is None or not 1 <= order <= len(ids):
        raise InvalidStepReference(
            f"{argument} is {order}, but the steps of this plan are numbered 1 to {len(ids)}",
            argument=argument,
            given=order,
            totalSteps=len(ids),
        )
    return ids[order - 1]
