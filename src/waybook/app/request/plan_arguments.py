"""Argument types of the plan tools: steps, conditions, usage and budgets."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from waybook.app.request import arguments as arg
from waybook.core.durations import MINUTE
from waybook.core.usage import DOLLAR, Usage, to_micros
from waybook.plan.model import (
    MAX_REPEATS,
    MAX_REQUIRED_SOURCES,
    MAX_TOUCH_LENGTH,
    MAX_TOUCHES,
    BranchAction,
    Budget,
    NewCondition,
    NewStep,
    OnExhausted,
    StepType,
)
from waybook.plan.touches import normalized_touch, touch_fault

MAX_ATTEMPTS = 100
#: Number of times that a condition repeats steps if the caller does not set `max`.
_DEFAULT_REPEATS = 3


def _normalized_touches(touches: list[str]) -> list[str]:
    for touch in touches:
        if fault := touch_fault(touch):
            raise PydanticCustomError(
                "touches", "{touch}: {fault}", {"touch": touch, "fault": fault}
            )
    return [*dict.fromkeys(map(normalized_touch, touches))]


#: Position of a step in its plan. The first step has position 1.
StepOrder = Annotated[
    int, BeforeValidator(arg.refuse_boolean), WithJsonSchema({"type": "integer", "minimum": 1})
]
#: Globs of files, or names of resources such as `db:staging`.
Touches = Annotated[
    arg.LenientJson[
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOUCH_LENGTH)]],
            Field(max_length=MAX_TOUCHES),
            AfterValidator(_normalized_touches),
        ]
    ],
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]


def touches_text(touches: list[str] | None) -> str | None:
    return "\n".join(touches) if touches else None


class StepArgument(arg.Nested):
    step_type: StepType = Field(description="kind of work")
    instructions: arg.Text = Field(description="what to do; all the agent sees")
    title: arg.Name | None = arg.optional("short name")
    stall_minutes: arg.Minutes | None = arg.optional("silence until others may take it")
    result_schema: arg.SchemaJson = arg.optional("JSON Schema of the result, or its form in words")
    depends_on: arg.ListOf[StepOrder] = arg.optional(
        "orders (from 1) to wait for; default: none", default=[]
    )
    required_sources: int | None = arg.optional(
        "sources the result must have", ge=1, le=MAX_REQUIRED_SOURCES
    )
    max_attempts: int | None = arg.optional(
        "silent holders until the step fails", ge=1, le=MAX_ATTEMPTS
    )
    touches: Touches | None = arg.optional("globs of files it alone changes")
    branching_conditions: SkipJsonSchema[arg.ListOf["StepConditionArgument"] | None] = None

    def new_step(self) -> NewStep:
        return NewStep(
            type=self.step_type,
            instructions=self.instructions,
            title=self.title,
            stall_seconds=minutes_to_seconds(self.stall_minutes),
            result_schema=self.result_schema,
            depends_on=tuple(self.depends_on),
            required_sources=self.required_sources,
            max_attempts=self.max_attempts,
            touches=touches_text(self.touches),
            conditions=tuple(c.new_condition() for c in self.branching_conditions or ()),
        )


_ADDED_STEP = {
    "stepType": {"type": "string", "enum": [*StepType], "description": "kind of work"},
    "instructions": {"type": "string", "description": "what to do", "minLength": 1},
    "dependsOn": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "orders to wait for, after the insertion",
    },
}
_ADDED_STEP_SCHEMA = {
    "type": "object",
    "properties": _ADDED_STEP,
    "required": ["stepType", "instructions"],
}
#: Steps to add to a plan. To keep the tool list small, the published schema has only some fields;
#: the schema of `create_research_plan` has all fields.
AddedSteps = Annotated[
    arg.LenientJson[Annotated[list[StepArgument], Field(min_length=1)]],
    WithJsonSchema({"type": "array", "minItems": 1, "items": _ADDED_STEP_SCHEMA}),
]


class ActionParams(arg.Nested):
    target_step_order: StepOrder | None = arg.optional("needed for skip_to")
    steps: AddedSteps | None = arg.optional("needed for add_steps")
    from_step_order: StepOrder | None = arg.optional("for repeat; default: same step")
    max: Annotated[int, Field(ge=1, le=MAX_REPEATS)] | None = arg.optional(
        f"for repeat; default {_DEFAULT_REPEATS}"
    )
    on_exhausted: Literal["continue", "review", "fail"] | None = arg.optional(
        "repeat: if still true after max"
    )
    reason: arg.Text | None = arg.optional("why")


class StepConditionArgument(arg.Nested):
    condition_expression: str = Field(description="CEL over its result: result.n == 0")
    if_true_action: Literal["continue", "skip_to", "add_steps", "repeat", "fail"] = Field(
        description="action if it is true"
    )
    action_params: arg.LenientJson[ActionParams] | None = arg.optional("arguments of the action")

    def new_condition(self) -> NewCondition:
        params = self.action_params or ActionParams()
        action, max_repeats = BranchAction(self.if_true_action), None
        if action is BranchAction.REPEAT:
            max_repeats = params.max or _DEFAULT_REPEATS
        return NewCondition(
            expression=self.condition_expression,
            action=action,
            target_step_order=params.target_step_order,
            steps=tuple(step.new_step() for step in params.steps or ()),
            reason=params.reason,
            from_step_order=params.from_step_order,
            max_repeats=max_repeats,
            on_exhausted=OnExhausted(params.on_exhausted) if params.on_exhausted else None,
        )


class ConditionArgument(StepConditionArgument):
    after_step_order: StepOrder = Field(description="order of the tested step")

    def new_condition(self) -> NewCondition:
        return replace(super().new_condition(), after_step_order=self.after_step_order)


StepArgument.model_rebuild()


def minutes_to_seconds(minutes: float | None) -> int | None:
    return None if minutes is None else max(1, round(minutes * MINUTE))


#: Higher values are lowered to these limits, so that sums of tokens and costs do not overflow.
_MAX_TOKENS = 10**9
_MAX_DOLLARS = 100_000

_Tokens = Annotated[int, Field(ge=0), arg.clamped(0, _MAX_TOKENS)]
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False), arg.clamped(0, _MAX_DOLLARS)]


class UsageFields(arg.Nested):
    # A name in snake case is accepted too, because model APIs use snake case.
    model_config = ConfigDict(
        alias_generator=AliasGenerator(
            alias=to_camel, validation_alias=lambda name: AliasChoices(to_camel(name), name)
        )
    )

    input_tokens: _Tokens | None = arg.optional("tokens")
    output_tokens: _Tokens | None = arg.optional("tokens")
    cost_usd: _Dollars | None = arg.optional("US dollars")
    model: SkipJsonSchema[arg.Name | None] = None


class BudgetFields(arg.Nested):
    tokens: Annotated[int, Field(ge=1), arg.clamped(1, 10**15)] | None = arg.optional("tokens")
    cost_usd: (
        Annotated[float, Field(ge=1 / DOLLAR, allow_inf_nan=False), arg.clamped(0, 10**9)] | None
    ) = arg.optional("US dollars")


UsageArgument = Annotated[arg.LenientJson[UsageFields] | None, Field(description="cost, if known")]
BudgetArgument = Annotated[arg.LenientJson[BudgetFields] | None, Field(description="soft limit")]


def to_usage(fields: UsageFields | None) -> Usage | None:
    if fields is None or not any(value is not None for _, value in fields):
        return None
    return Usage(
        input_tokens=fields.input_tokens,
        output_tokens=fields.output_tokens,
        cost_micros=None if fields.cost_usd is None else to_micros(fields.cost_usd),
        model=fields.model,
    )


def to_budget(fields: BudgetFields | None) -> Budget | None:
    """Convert the argument to a `Budget`, or to None if it sets no limit."""
    if fields is None or (fields.tokens is None and fields.cost_usd is None):
        return None
    cost = None if fields.cost_usd is None else to_micros(fields.cost_usd)
    return Budget(tokens=fields.tokens, cost_micros=cost)
