"""Texts for clients: they name only tools that the client can list, and contain no stored data."""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification, ToolsCapability

from marked_data import MarkedWriter, marked_output, marked_plan, marked_run
from org_env import AgentClient, Body, OrgEnv
from random_calls import RandomCalls
from sample_definitions import make_definition, make_recipe_step, make_stage
from tool_calls import INSTEAD, valid_call
from transport.full_app import gateway_of
from waybook.errors import NO_CALL_HELPS
from waybook.transport.mcp.resources import APP_TOOLS
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import PROFILES, published_tools

ALL_TOOLS = {name: tool.listed for name, tool in published_tools().items()}
NAME = re.compile(r"[a-z]+(?:_[a-z]+)+|\bping\b")
#: Arguments that most tools refuse: no arguments, ids that do not exist, and an unknown argument.
WRONG: tuple[Body, ...] = (
    {},
    {"planId": "x", "runId": "x", "stepId": "x", "jobId": "x", "artifactId": "x"},
    {"colour": "red"},
)
RANDOM_CALLS = 400


def faults(value: object, offered: Collection[str], sent: Collection[str] = ()) -> Iterator[str]:
    """Yield each tool in a reply that is not in `offered`, and each unknown argument.

    Arguments that were sent may be repeated, also those that the published schema omits.
    """
    if isinstance(value, str):
        yield from {*NAME.findall(value)} & ALL_TOOLS.keys() - {*offered}
    elif isinstance(value, list):
        for inner in value:
            yield from faults(inner, offered, sent)
    elif isinstance(value, dict):
        yield from _unknown_arguments(value, sent)
        for inner in value.values():
            yield from faults(inner, offered, sent)


def _unknown_arguments(call: Mapping[str, Any], sent: Collection[str]) -> Iterator[str]:
    tool = ALL_TOOLS.get(str(call.get("tool")))
    if tool is not None and "args" in call:
        known = {*tool.input_schema["properties"], *sent}
        yield from (f"{tool.name} {name}" for name in call["args"] if name not in known)


async def check(agent: AgentClient, offered: Collection[str], tool: str, arguments: Body) -> Body:
    answer = await agent.ask(tool, arguments)
    shown = {tool: sorted({*faults(dict(answer.body), offered, arguments)}), "arguments": arguments}
    assert not shown[tool], shown
    if answer.is_error:
        error: Any = answer.body["error"]
        assert error["next"] is not None or NO_CALL_HELPS in error["message"], (shown, error)
    return answer.body


async def listed_tools(agent: AgentClient, profile: str) -> tuple[set[str], list[str]]:
    """Return the names of the tools that a client can list, and the texts of lists and prompts."""
    server = build_server(published_tools(), gateway_of(agent), profile=profile)
    async with Client(server) as client:
        tools = await client.list_tools()
        prompts = await client.list_prompts()
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        named = dict.fromkeys(("planId", "question", "runId"), "x")
        texts = [
            (await client.get_prompt(prompt.name, named)).model_dump_json()
            for prompt in prompts.prompts
        ]
    lists = [reply.model_dump_json() for reply in (tools, prompts, resources, templates)]
    names = {tool.name for tool in tools.tools}
    return names, [*lists, *texts, str(server.instructions)]


@pytest.mark.parametrize("profile", PROFILES)
async def test_replies_mention_only_listed_tools_and_existing_arguments(
    world: OrgEnv, profile: str
) -> None:
    agent = world.agent
    offered, _ = await listed_tools(agent, profile)
    calls = RandomCalls(1)
    calls.schemas = {name: s for name, s in calls.schemas.items() if name in offered - APP_TOOLS}
    for tool in sorted(offered - APP_TOOLS):
        uses = [name for other, name in INSTEAD if other == tool]
        for using in (None, *uses):
            arguments = await valid_call(agent, tool, using)
            calls.learn(arguments)
            calls.learn(await check(agent, offered, tool, arguments))
        for wrong in WRONG:
            await check(agent, offered, tool, wrong)
    for _ in range(RANDOM_CALLS):
        tool, arguments = calls.call()
        calls.learn(await check(agent, offered, tool, arguments))


@pytest.mark.parametrize("profile", PROFILES)
async def test_instructions_prompts_and_resources_mention_only_listed_tools(
    agent: AgentClient, profile: str
) -> None:
    for _ in range(2):
        offered, texts = await listed_tools(agent, profile)
        assert [*faults(texts, offered)] == []
        await agent.plan()
        await agent.run()


async def test_tools_for_runs_are_listed_after_a_workflow_was_added(agent: AgentClient) -> None:
    offered, _ = await listed_tools(agent, "auto")
    assert {"get_next_step", "store_research"} <= offered
    assert "get_next_job" not in offered
    await agent.run()
    offered, _ = await listed_tools(agent, "auto")
    assert {"get_next_step", "store_research", "get_next_job"} <= offered


async def test_stdio_client_is_notified_when_tools_for_runs_are_added(agent: AgentClient) -> None:
    joined = asyncio.Event()

    async def receive(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            joined.set()

    server = build_server(published_tools(), gateway_of(agent), profile="auto", is_persistent=True)
    async with Client(server, mode="legacy", message_handler=receive) as client:
        assert client.server_capabilities.tools == ToolsCapability(list_changed=True)
        assert "start_run" not in {tool.name for tool in (await client.list_tools()).tools}
        stage = make_stage("views", make_recipe_step("view"))
        await agent.call("add_dag", definition=make_definition("views", stage))
        await asyncio.wait_for(joined.wait(), 20)
        assert "start_run" in {tool.name for tool in (await client.list_tools()).tools}


def test_tool_name_check_reports_unlisted_tool_and_unknown_argument() -> None:
    reply = {"why": "call start_run", "next": {"tool": "ping", "args": {"colour": 1}}}
    assert {*faults(reply, {"ping"})} == {"start_run", "ping colour"}


# Tests that the lists of MCP contain no stored data.


def make_client(agent: AgentClient) -> Client:
    return Client(build_server(published_tools(), gateway_of(agent), profile="all"), mode="legacy")


async def published_texts(agent: AgentClient) -> list[str]:
    """Return the MCP lists, a prompt and the instructions of the server, as a client gets them."""
    async with make_client(agent) as client:
        replies = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.get_prompt("resume_plan", {"planId": "p"}),
        ]
        assert client.instructions
        return [*(reply.model_dump_json() for reply in replies), client.instructions]


async def test_tool_and_prompt_lists_do_not_contain_stored_data(world: OrgEnv) -> None:
    before = await published_texts(world.agent)
    ink = MarkedWriter()
    await marked_plan(world.agent, ink)
    await marked_output(world.agent, ink)
    await marked_run(world.agent, ink)
    assert await published_texts(world.agent) == before


async def test_plan_name_appears_only_in_the_resource_title(world: OrgEnv) -> None:
    ink = MarkedWriter()
    await marked_plan(world.agent, ink)
    (mark,) = [mark for mark, leaf in ink.written.items() if leaf[1:] == ("name",)]
    async with make_client(world.agent) as client:
        listed = await client.list_resources()
    (plan,) = [
        resource for resource in listed.resources if resource.uri.startswith("waybook://plans/")
    ]
    assert mark in (plan.title or "")
    assert mark not in plan.model_copy(update={"title": ""}).model_dump_json()
