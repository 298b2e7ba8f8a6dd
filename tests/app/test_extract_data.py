"""Replies of `extract_data` without a language model: the prompt, and checks of candidates."""

import json
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from org_env import AgentClient, Body
from plan.test_schema import JSON, SCHEMAS
from tool_calls import submit_late_result
from waybook.app.request.arguments import is_blank, parse_arguments
from waybook.app.tools.research.extract_data import MAX_SCHEMA_BYTES, ExtractData, extract_data
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.research.extraction import fence_text, prompt

RIVER: Body = {
    "type": "object",
    "properties": {"river": {"type": "string"}, "km": {"type": "integer"}},
    "required": ["river", "km"],
}
NILE = {"river": "Nile", "km": 6650}
TEXT = "The Nile is 6,650 km long."
MAX_TOKENS = 48_000


async def test_extract_data_without_model_returns_prompt_and_schema(agent: AgentClient) -> None:
    reply = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert reply == {
        "status": "do_it_yourself",
        "prompt": prompt(TEXT),
        "schema": RIVER,
        "left": 0,
        "next": reply["next"],
    }
    assert reply["next"]["tool"] == "extract_data"
    assert "candidate" in reply["next"]["why"]
    assert fence_text(TEXT) in reply["prompt"]


async def test_extract_data_returns_valid_candidate_as_extracted_data(agent: AgentClient) -> None:
    reply = await agent.call("extract_data", schema=RIVER, candidate=NILE)
    assert (reply["status"], reply["data"]) == ("extracted", NILE)
    assert "usage" not in reply


async def test_extract_data_returns_error_paths_for_invalid_candidate(agent: AgentClient) -> None:
    reply = await agent.call("extract_data", schema=RIVER, candidate={"km": "long"})
    assert reply["status"] == "invalid"
    assert reply["errors"] == [
        {"path": "$", "message": "'river' is a required property"},
        {"path": "$.km", "message": "'long' is not of type 'integer'"},
    ]
    assert "data" not in reply
    assert reply["next"]["tool"] == "extract_data"


async def test_extract_data_parses_candidate_passed_as_json_text(agent: AgentClient) -> None:
    reply = await agent.call("extract_data", schema=RIVER, candidate=json.dumps(NILE))
    assert reply["data"] == NILE


async def test_extract_data_keeps_json_text_if_schema_requires_a_string(agent: AgentClient) -> None:
    reply = await agent.call("extract_data", schema={"type": "string"}, candidate="[1]")
    assert reply["data"] == "[1]"


async def test_extract_data_returns_at_most_twenty_validation_errors(agent: AgentClient) -> None:
    names = [f"\x01{'x' * 100}{n}" for n in range(200)]
    schema = {"items": {"enum": names[:1]}}
    reply = await agent.call("extract_data", schema=schema, candidate=names)
    assert 0 < len(reply["errors"]) <= 20
    assert len(orjson.dumps(reply)) < MAX_TOKENS


def is_candidate(value: object) -> bool:
    """Return whether the server treats a value as a candidate, not as an absent argument."""
    return value is not None and not is_blank(value)


@given(schema=SCHEMAS, candidate=JSON.filter(is_candidate))
async def test_extract_data_accepts_candidate_only_if_valid_against_schema(
    schema: Any,  # noqa: ANN401 - any JSON
    candidate: Any,  # noqa: ANN401 - any JSON
) -> None:
    try:
        args = parse_arguments(ExtractData, {"schema": schema, "candidate": candidate})
    # The server refuses numbers and texts that it cannot store.
    except InvalidInput:
        return
    ctx: Any = None  # unused
    reply = cast("dict[str, Any]", await extract_data.run(ctx, args))
    try:
        valid = Draft202012Validator(schema).is_valid(candidate)
    except ArithmeticError:
        valid = False
    assert reply["status"] == ("extracted" if valid else "invalid")
    assert reply.get("data") == (candidate if valid else None)
    assert bool(reply.get("errors")) is not valid


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"$ref": "http://127.0.0.1:1/schema"}, "INVALID_INPUT"),
        ({"$ref": "#"}, "INVALID_INPUT"),
        ({"$dynamicRef": "#x"}, "INVALID_INPUT"),
        ({"items": {"pattern": "(a+)+$"}}, "INVALID_INPUT"),
        ({"uniqueItems": True}, "INVALID_INPUT"),
        ({"type": "nonsense"}, "INVALID_INPUT"),
        (True, "INVALID_INPUT"),
        (None, "INVALID_INPUT"),
        ({"enum": [*range(3_000)]}, "TOO_LARGE"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "TOO_LARGE"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
async def test_extract_data_refuses_unsupported_schema(
    agent: AgentClient, schema: Json, code: str
) -> None:
    error = await agent.refused("extract_data", text=TEXT, schema=schema)
    assert error["code"] == code
    assert error["message"].startswith("schema ")


async def test_extract_data_with_text_and_artifact_uses_the_text(agent: AgentClient) -> None:
    artifact_id = await submit_late_result(agent)
    both = {"text": "A text of my own.", "artifactId": artifact_id}
    assert "A text of my own." in (await agent.call("extract_data", schema=RIVER, **both))["prompt"]


@pytest.mark.parametrize(
    "args", [{}, {"text": TEXT, "offset": 26}, {"text": TEXT, "offset": 2**62}]
)
async def test_extract_data_returns_prompt_if_no_text_is_given_or_left(
    agent: AgentClient, args: Body
) -> None:
    reply = await agent.call("extract_data", schema=RIVER, **args)
    assert (reply["status"], reply["left"]) == ("do_it_yourself", 0)
    assert TEXT not in reply["prompt"]


async def test_extract_data_with_plain_text_schema_accepts_any_data(agent: AgentClient) -> None:
    args = {"text": TEXT, "schema": "the river and its length"}
    reply = await agent.call("extract_data", **args)
    assert reply["schema"] == {"description": "the river and its length"}
    assert (await agent.call("extract_data", **args, candidate=["Nile"]))["data"] == ["Nile"]
    broken = await agent.refused("extract_data", text=TEXT, schema='{"type": "object",')
    assert broken["message"] == "schema: must be valid JSON, or a description in words"


async def test_extract_data_refuses_candidate_that_is_too_costly_to_validate(
    agent: AgentClient,
) -> None:
    wide = {"anyOf": [{"type": "null"}] * 500}
    error = await agent.refused("extract_data", schema=wide, candidate=[1] * 500)
    assert error["code"] == "TOO_LARGE"


async def test_extract_data_returns_large_candidate_only_with_detail_argument(
    agent: AgentClient,
) -> None:
    args: Body = {"schema": {"type": "string"}, "candidate": "x" * 60_000}
    error = await agent.refused("extract_data", **args)
    assert (error["code"], error["next"]["args"]) == ("TOO_LARGE", {"detail": True})
    assert (await agent.call("extract_data", **args, detail=True))["data"] == "x" * 60_000


async def test_extract_data_labels_stored_text_with_the_author(agent: AgentClient) -> None:
    artifact_id = await submit_late_result(agent, TEXT)
    reply = await agent.call("extract_data", artifactId=artifact_id, schema=RIVER)
    about = {
        "artifactId": artifact_id,
        "kind": "late_result",
        "title": "Late result of step 1, attempt 1",
        "storedBy": "ann",
        "storedAt": "2030-01-01T12:00:00+00:00",
    }
    _, begins, label, _, text, ends = reply["prompt"].rsplit("\n", 5)
    assert (begins[:3], ends[:3]) == ("===", "===")
    assert json.loads(label) == about
    assert json.loads(text)["result_summary"] == TEXT
    assert reply["next"]["args"] == {"artifactId": artifact_id}


@pytest.mark.parametrize("character", ["x", "☃", "\n", "\x01"])
async def test_extract_data_splits_a_long_text_into_several_prompts(
    agent: AgentClient, character: str
) -> None:
    text = "".join(f"{character * 9}{n:08}" for n in range(5_000))
    schema = {"description": "y" * (MAX_SCHEMA_BYTES - 100)}
    pieces, args = [], {"offset": 0}
    while True:
        reply = await agent.call("extract_data", text=text, schema=schema, **args)
        assert len(orjson.dumps(reply)) < MAX_TOKENS
        upto = len(text) - reply["left"]
        assert reply["prompt"] == prompt(text[args["offset"] : upto])
        pieces.append(text[args["offset"] : upto])
        if not reply["left"]:
            break
        args = reply["next"]["args"]
        assert args == {"promptOnly": True, "offset": upto}
    assert "".join(pieces) == text
    assert len(pieces) > 1
