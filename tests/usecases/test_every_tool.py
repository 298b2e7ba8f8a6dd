"""Properties of every tool."""

from json import dumps

import pytest

from tool_arguments import arguments_of
from tool_calls import INSTEAD, MUTATING, PREPARE, a_call_of
from waybook.app.registry import TOOLS
from worlds import Agent


def test_every_tool_has_a_call_that_works_for_the_tests_to_go_over() -> None:
    assert set(PREPARE) == set(TOOLS)


@pytest.mark.pg15
@pytest.mark.parametrize("tool", TOOLS)
async def test_every_tool_valid_call_succeeds_and_returns_next_call(
    agent: Agent, tool: str
) -> None:
    reply = await agent.call(tool, **await a_call_of(agent, tool))
    following = reply["next"]
    assert set(following) == {"tool", "args", "why"}
    assert following["tool"] in TOOLS
    assert following["why"]
    assert set(following["args"]) <= set(arguments_of(following["tool"]))


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_call_uses_every_argument_there_is(agent: Agent, tool: str) -> None:
    used = {"idempotencyKey", "sessionId", *await a_call_of(agent, tool)}
    for other, name in INSTEAD:
        if other == tool:
            used |= set(await a_call_of(agent, tool, using=name))
    assert used >= set(arguments_of(tool))


@pytest.mark.parametrize(("tool", "name"), INSTEAD, ids=str)
async def test_a_call_in_other_words_works_as_well(agent: Agent, tool: str, name: str) -> None:
    args = await a_call_of(agent, tool, using=name)
    assert name in args
    assert (await agent.call(tool, **args))["next"]["tool"] in TOOLS


@pytest.mark.parametrize("tool", TOOLS)
async def test_every_tool_reply_matches_output_schema(agent: Agent, tool: str) -> None:
    kinds = {"string": str, "integer": int, "array": list, "object": dict}
    schema = TOOLS[tool].output_schema
    reply = await agent.call(tool, **await a_call_of(agent, tool))
    assert set(schema["required"]) <= set(reply)  # type: ignore[call-overload]  # a list of names
    for name, field_schema in schema["properties"].items():  # type: ignore[attr-defined]  # an object
        if "type" in field_schema and name in reply:
            assert isinstance(reply[name], kinds[field_schema["type"]]), name


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_unknown_argument_is_refused_by_name(agent: Agent, tool: str) -> None:
    arguments = await a_call_of(agent, tool)
    error = await agent.refused(tool, **arguments, plannId="x")
    assert error["code"] == "INVALID_INPUT"
    assert error["message"].startswith("plannId: unknown argument")
    assert all(name in error["message"] for name in arguments_of(tool))


async def test_of_a_long_unknown_argument_only_the_beginning_is_said_back(agent: Agent) -> None:
    error = await agent.refused("list_active_plans", **{"-eyJaaaaaaaa" * 20_000: 1})
    assert error["code"] == "INVALID_INPUT"
    assert len(str(error)) < 2_000


def test_reading_tools_are_those_without_a_key() -> None:
    assert [name for name, tool in TOOLS.items() if tool.reads_only] == [
        name for name in TOOLS if name not in MUTATING
    ]


@pytest.mark.parametrize("tool", TOOLS)
async def test_structures_may_arrive_as_json_text(agent: Agent, tool: str) -> None:
    arguments = await a_call_of(agent, tool)
    as_text = {n: dumps(v) if isinstance(v, list | dict) else v for n, v in arguments.items()}
    await agent.call(tool, **as_text)
