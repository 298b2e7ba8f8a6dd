"""Steps and conditions as callers write them down."""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from waybook.plan.create import NewCondition
from waybook.plan.limits import MAX_REQUIRED_SOURCES
from waybook.plan.model import BranchAction, NewStep, StepType
from waybook.usecases.arguments import (
    AnyJson,
    LenientJson,
    Line,
    Minutes,
    Name,
    Nested,
    Text,
    Whole,
)

SECONDS_PER_MINUTE = 60


class StepArgument(Nested):
    step_type: StepType
    instructions: Text
    title: Name | None = None
    stall_minutes: Minutes | None = None
    result_schema: AnyJson = Field(None, description="JSON Schema")
    depends_on: LenientJson[list[Whole]] = Field(default=[], description="step orders")
    required_sources: int | None = Field(None, ge=1, le=MAX_REQUIRED_SOURCES)

    def new_step(self) -> NewStep:
        """The step in the rules' words."""
        return NewStep(
            type=self.step_type,
            instructions=self.instructions,
            title=self.title,
            stall_seconds=minutes_to_seconds(self.stall_minutes),
            result_schema=self.result_schema,
            depends_on=tuple(self.depends_on),
            required_sources=self.required_sources,
        )


class ActionParams(Nested):
    target_step_order: int | None = None
    steps: LenientJson[list[StepArgument]] | None = None
    reason: Line | None = None


class ConditionArgument(Nested):
    after_step_order: int
    condition_expression: str = Field(description="CEL: result.n == 0")
    if_true_action: Literal["continue", "skip_to", "add_steps", "fail"]
    action_params: Annotated[
        LenientJson[ActionParams] | None,
        WithJsonSchema({"type": "object", "description": "targetStepOrder, steps or reason"}),
    ] = None

    def new_condition(self) -> NewCondition:
        """The condition in the rules' words."""
        params = self.action_params or ActionParams()
        return NewCondition(
            after_step_order=self.after_step_order,
            expression=self.condition_expression,
            action=BranchAction(self.if_true_action),
            target_step_order=params.target_step_order,
            steps=tuple(step.new_step() for step in params.steps or ()),
            reason=params.reason,
        )


def minutes_to_seconds(minutes: float | None) -> int | None:
    """A threshold in whole seconds, at least one."""
    return None if minutes is None else max(1, round(minutes * SECONDS_PER_MINUTE))
