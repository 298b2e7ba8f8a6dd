"""Asking the server's model for data: once, and once more with what was wrong."""

import asyncio
from dataclasses import dataclass

from waybook.endpoints.json_text import extract_json
from waybook.endpoints.question import Model, ModelReply, ModelRequest
from waybook.errors import EndpointFailed, InvalidInput
from waybook.plan.schema import Mismatch, mismatches
from waybook.record.moment import Json
from waybook.record.usage import Usage
from waybook.research.extraction import fence_text, model_instructions, retry_prompt
from waybook.usecases.arguments import check_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionOutcome:
    """What the model gave, what is wrong with it, and what it took."""

    data: Json
    faults: list[Mismatch]
    usage: Usage


class SecondAttemptFailed(Exception):
    """The endpoint failed at the second question: what went before was used all the same."""

    def __init__(self, failed: EndpointFailed, usage: Usage) -> None:
        super().__init__(failed)
        self.failed = failed
        self.usage = usage


async def extract_with_model(
    model: Model, given: str, schema: dict[str, Json], *, seconds: float
) -> ExtractionOutcome:
    """What the model extracts from a text, checked; asked at most twice, in so many seconds.

    Raises:
        EndpointFailed: there was no answer that can be used.
        CutOff: there was one, but none to what was wrong with it.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    told = model_instructions(given, schema)
    question = ModelRequest(instructions=told, text=fence_text(given), schema=schema)
    answer = await model.complete(question, seconds=seconds)
    first = validate_reply(answer, schema)
    if not first.faults:
        return first
    mending = retry_prompt(given, answer.text, first.faults)
    question = ModelRequest(instructions=told, text=mending, schema=schema)
    try:
        second = validate_reply(await model.complete(question, seconds=deadline - clock()), schema)
    except EndpointFailed as failed:
        raise SecondAttemptFailed(failed, first.usage) from failed
    return ExtractionOutcome(
        data=second.data, faults=second.faults, usage=first.usage.plus(second.usage)
    )


def validate_reply(told: ModelReply, schema: dict[str, Json]) -> ExtractionOutcome:
    """What a model said, held against the schema."""
    data: Json = None
    try:
        data = extract_json(told.text)
        check_json(data)
        faults = mismatches(data, schema, value="the answer", shape="schema")
    except InvalidInput as refused:
        faults = [Mismatch("$", refused.message)]
    except ValueError:
        why = (
            "the answer was cut off before its end"
            if told.truncated
            else "the answer holds no JSON"
        )
        faults = [Mismatch("$", why)]
    return ExtractionOutcome(data=data, faults=faults, usage=told.usage)


def usage_view(usage: Usage) -> dict[str, Json]:
    """Usage as every reply tells it."""
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "model": usage.model,
    }
