"""Asking the server's model for data: once, and once more with what was wrong."""

import asyncio
from dataclasses import dataclass

from waybook.endpoints.json_text import json_in
from waybook.endpoints.question import Model, Question, Told
from waybook.errors import EndpointFailed, InvalidInput
from waybook.plan.schema import Mismatch, mismatches
from waybook.record.moment import Json
from waybook.record.usage import Usage
from waybook.research.extraction import fenced, for_a_model, once_more
from waybook.usecases.arguments import check_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the model gave, what is wrong with it, and what it took."""

    data: Json
    faults: list[Mismatch]
    usage: Usage


class CutOff(Exception):
    """The endpoint failed at the second question: what went before was used all the same."""

    def __init__(self, failed: EndpointFailed, usage: Usage) -> None:
        super().__init__(failed)
        self.failed = failed
        self.usage = usage


async def ask_model(
    model: Model, given: str, schema: dict[str, Json], *, seconds: float
) -> Outcome:
    """What the model extracts from a text, checked; asked at most twice, in so many seconds.

    Raises:
        EndpointFailed: there was no answer that can be used.
        CutOff: there was one, but none to what was wrong with it.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    told = for_a_model(given, schema)
    question = Question(instructions=told, text=fenced(given), schema=schema)
    answer = await model.answer(question, seconds=seconds)
    first = judged(answer, schema)
    if not first.faults:
        return first
    mending = once_more(given, answer.text, first.faults)
    question = Question(instructions=told, text=mending, schema=schema)
    try:
        second = judged(await model.answer(question, seconds=deadline - clock()), schema)
    except EndpointFailed as failed:
        raise CutOff(failed, first.usage) from failed
    return Outcome(data=second.data, faults=second.faults, usage=first.usage.plus(second.usage))


def judged(told: Told, schema: dict[str, Json]) -> Outcome:
    """What a model said, held against the schema."""
    data: Json = None
    try:
        data = json_in(told.text)
        check_json(data)
        faults = mismatches(data, schema, value="the answer", shape="schema")
    except InvalidInput as refused:
        faults = [Mismatch("$", refused.message)]
    except ValueError:
        why = "the answer was cut off before its end" if told.cut else "the answer holds no JSON"
        faults = [Mismatch("$", why)]
    return Outcome(data=data, faults=faults, usage=told.usage)


def usage_view(usage: Usage) -> dict[str, Json]:
    """Usage as every reply tells it."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "model": usage.model,
    }
