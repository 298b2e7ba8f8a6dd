"""What work took and may take, as callers tell it."""

from typing import Annotated

from pydantic import AliasChoices, AliasGenerator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from waybook.errors import InvalidInput
from waybook.plan.model import Budget
from waybook.record.usage import DOLLAR, Usage, to_micros
from waybook.usecases.arguments import LenientJson, Name, Nested

#: More than any one result can take, and few enough that no sum of them overflows.
MAX_TOKENS = 10**9
MAX_DOLLARS = 100_000

Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Dollars = Annotated[float, Field(ge=0, le=MAX_DOLLARS, allow_inf_nan=False)]


def _spellings(name: str) -> AliasChoices:
    """Ours, and the one in which most model providers tell it."""
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


#: The names alone: what they hold is plain from them.
UsageArgument = Annotated[
    LenientJson[UsageFields] | None,
    WithJsonSchema({"type": "object", "description": "inputTokens, outputTokens, costUsd, model"}),
]
BudgetArgument = Annotated[
    LenientJson[BudgetFields] | None,
    WithJsonSchema({"type": "object", "description": "tokens, costUsd"}),
]


def to_usage(asked: UsageFields | None) -> Usage | None:
    """The usage in the rules' words; an empty one tells nothing."""
    if asked is None or not any(value is not None for _, value in asked):
        return None
    return Usage(
        input_tokens=asked.input_tokens,
        output_tokens=asked.output_tokens,
        cost_micros=None if asked.cost_usd is None else to_micros(asked.cost_usd),
        model=asked.model,
    )


def to_budget(asked: BudgetFields | None) -> Budget | None:
    """The budget in the rules' words.

    Raises:
        InvalidInput: it limits nothing.
    """
    if asked is None:
        return None
    if asked.tokens is None and asked.cost_usd is None:
        raise InvalidInput("budget: name tokens or costUsd, or both", argument="budget")
    cost = None if asked.cost_usd is None else to_micros(asked.cost_usd)
    return Budget(tokens=asked.tokens, cost_micros=cost)
