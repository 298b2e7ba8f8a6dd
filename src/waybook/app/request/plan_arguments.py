"""Argument types of the plan tools: steps, conditions, usage and budgets."""

from typing import Annotated, Literal

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from waybook.app.request.arguments import (
    AnyJson,
    LenientJson,
    Line,
    Minutes,
    Name,
    Nested,
    Text,
    WholeNumber,
)
from waybook.core.usage import DOLLAR, Usage, to_micros
from waybook.errors import InvalidInput
from waybook.plan.create import NewCondition
from waybook.plan.model import MAX_REQUIRED_SOURCES, BranchAction, Budget, NewStep, StepType

SECONDS_PER_MINUTE = 60


class StepArgument(Nested):
    step_type: StepType
    instructions: Text
    title: Name | None = None
    stall_minutes: Minutes | None = None
    result_schema: AnyJson = Field(None, description="JSON Schema")
    depends_on: LenientJson[list[WholeNumber]] = Field(default=[], description="step orders")
    required_sources: int | None = Field(None, ge=1, le=MAX_REQUIRED_SOURCES)

    def new_step(self) -> NewStep:
        """Convert the step argument to the type that the plan rules use."""
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
        """Convert the condition argument to the type that the plan rules use."""
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
    """Return a stall threshold in whole seconds, at least one; None for None."""
    return None if minutes is None else max(1, round(minutes * SECONDS_PER_MINUTE))


#: Maximum number of tokens that a caller may report. It is more than any single result can use, and
#: small enough that no sum of such values overflows.
MAX_TOKENS = 10**9
MAX_DOLLARS = 100_000

Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Dollars = Annotated[float, Field(ge=0, le=MAX_DOLLARS, allow_inf_nan=False)]


def _spellings(name: str) -> AliasChoices:
    """Return both spellings of an argument: camelCase, and snake_case as in model APIs."""
    return AliasChoices(to_camel(name), name)


class UsageFields(Nested):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(alias=to_camel, validation_alias=_spellings)
    )

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cost_usd: Dollars | None = None
    model: Name | None = None


class BudgetFields(Nested):
    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = None
    cost_usd: Annotated[float, Field(ge=1 / DOLLAR, le=10**9, allow_inf_nan=False)] | None = None


#: The schema describes the usage fields only by their names, because the names are self-
#: explanatory.
UsageArgument = Annotated[
    LenientJson[UsageFields] | None,
    WithJsonSchema({"type": "object", "description": "inputTokens, outputTokens, costUsd, model"}),
]
BudgetArgument = Annotated[
    LenientJson[BudgetFields] | None,
    WithJsonSchema({"type": "object", "description": "tokens, costUsd"}),
]


def to_usage(fields: UsageFields | None) -> Usage | None:
    """Convert the usage argument to the type that the plan rules use, or to None if empty."""
    if fields is None or not any(value is not None for _, value in fields):
        return None
    return Usage(
        input_tokens=fields.input_tokens,
        output_tokens=fields.output_tokens,
        cost_micros=None if fields.cost_usd is None else to_micros(fields.cost_usd),
        model=fields.model,
    )


def to_budget(fields: BudgetFields | None) -> Budget | None:
    """Convert the budget argument to the type that the plan rules use.

    Raises:
        InvalidInput: it limits nothing.
    """
    if fields is None:
        return None
    if fields.tokens is None and fields.cost_usd is None:
        raise InvalidInput("budget: name tokens or costUsd, or both", argument="budget")
    cost = None if fields.cost_usd is None else to_micros(fields.cost_usd)
    return Budget(tokens=fields.tokens, cost_micros=cost)
