"""Converts database rows to the conditions of a plan."""

from typing import Any

from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    Condition,
    ConditionId,
    NewCondition,
    NewStep,
    OnExhausted,
    StepId,
    StepType,
)
from waybook.store.plans.rows import ConditionRow


def read_condition(row: ConditionRow) -> Condition:
    return Condition(
        id=ConditionId(row.id),
        step_id=StepId(row.step_id),
        position=row.position,
        expression=row.expression,
        action=BranchAction(row.action),
        target_step_id=StepId(row.target_step_id) if row.target_step_id else None,
        steps=tuple(_new_step(new) for new in row.steps or ()),
        reason=row.reason,
        outcome=BranchOutcome(row.outcome) if row.outcome else None,
        from_step_id=StepId(row.from_step_id) if row.from_step_id else None,
        max_repeats=row.max_repeats,
        repeats=row.repeats,
        on_exhausted=OnExhausted(row.on_exhausted) if row.on_exhausted else None,
        cause=row.cause,
    )


def _new_step(fields: dict[str, Any]) -> NewStep:
    conditions = tuple(_new_condition(inner) for inner in fields.get("conditions", ()))
    before = tuple(map(StepId, fields.get("depends_on_ids", ())))
    rest = {"type": StepType(fields["type"]), "depends_on_ids": before, "conditions": conditions}
    return NewStep(**{**fields, **rest})


def _new_condition(fields: dict[str, Any]) -> NewCondition:
    steps = tuple(_new_step(inner) for inner in fields.get("steps", ()))
    then = fields.get("on_exhausted")
    rest = {"action": BranchAction(fields["action"]), "steps": steps}
    return NewCondition(**{**fields, **rest, "on_exhausted": OnExhausted(then) if then else None})
