"""Elicitation: an MCP client that can show forms presents a review to its user."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as wire
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from starlette.requests import Request

from org_env import AgentClient, Body, OrgEnv
from waybook.app.dispatcher import Dispatcher
from waybook.app.request.caller import Caller
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

Action = Literal["accept", "decline", "cancel"]


@dataclass
class Person:
    """User of an MCP client, who gives this answer to every form."""

    action: Action = "accept"
    content: dict[str, Any] | None = None
    forms: list[wire.ElicitRequestFormParams] = field(default_factory=list)

    async def complete(
        self, context: ClientRequestContext, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult:
        del context
        assert isinstance(params, wire.ElicitRequestFormParams)
        self.forms.append(params)
        return wire.ElicitResult(action=self.action, content=self.content)


@asynccontextmanager
async def open_client(
    agent: AgentClient, person: Person | None, era: Literal["legacy", "2026-07-28"] = "2026-07-28"
) -> AsyncIterator[Client]:
    async def dispatcher() -> Dispatcher:
        return agent.dispatcher

    async def caller(_: Request | None) -> Caller:
        return agent.caller

    server = build_server(published_tools(), ToolGateway(dispatcher, caller))
    callback = person.complete if person else None
    async with Client(server, mode=era, elicitation_callback=callback) as client:
        yield client


async def ask_user(
    agent: AgentClient, client: Client, **more: object
) -> tuple[Body, wire.CallToolResult]:
    """Create a plan and request a review as client; return the plan and the tool result."""
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="s")
    review = {"stepId": taken["stepId"], "summary": "Right?", "questions": ["Why?"], **more}
    return plan, await client.call_tool("request_user_review", {**review, "sessionId": "s"})


async def test_elicitation_user_approves_records_decision_and_continues_plan(
    world: OrgEnv, agent: AgentClient
) -> None:
    person = Person(content={"decision": "approve", "feedback": ""})
    async with open_client(agent, person) as client:
        plan, result = await ask_user(agent, client, resultSummary="Nile")
    (form,) = person.forms
    assert form.message == "Right?\n? Why?"
    payload = result.structured_content
    assert payload is not None
    assert (payload["decision"], payload["stepStatus"], payload["planStatus"]) == (
        "approve",
        "completed",
        "executing",
    )
    assert payload["reviewUrl"].endswith("#review")
    assert payload["next"]["tool"] == "get_next_step"
    entry = (await world.entries(agent.org_id, plan["planId"]))[-1]
    details = json.loads(entry.details)
    assert (entry.actor, entry.channel, entry.session) == ("ann", "mcp", "s")
    assert (details["decision"], details["place"]) == ("approve", "form")


async def test_elicitation_user_requests_changes_step_can_be_taken_again(
    agent: AgentClient,
) -> None:
    person = Person(content={"decision": "modify", "feedback": "Add lakes."})
    async with open_client(agent, person) as client:
        plan, result = await ask_user(agent, client)
    assert result.structured_content is not None
    assert result.structured_content["instructions"].endswith("Add lakes.")
    assert (await agent.take(plan, sessionId="s"))["attempt"] == 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_elicitation_without_answer_leaves_review_open(
    agent: AgentClient, action: Action
) -> None:
    async with open_client(agent, Person(action)) as client:
        plan, result = await ask_user(agent, client)
    assert result.structured_content is not None
    assert result.structured_content["planStatus"] == "awaiting_review"
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_elicitation_invalid_answer_returns_error_and_leaves_review_open(
    agent: AgentClient,
) -> None:
    async with open_client(agent, Person(content={"decision": "modify"})) as client:
        plan, result = await ask_user(agent, client)
    assert result.is_error
    assert (await agent.status(plan))["status"] == "awaiting_review"


@pytest.mark.parametrize(
    ("person", "era"), [(None, "2026-07-28"), (Person(), "legacy"), (None, "legacy")]
)
async def test_elicitation_client_without_support_leaves_review_open(
    agent: AgentClient, person: Person | None, era: Literal["legacy", "2026-07-28"]
) -> None:
    async with open_client(agent, person, era) as client:
        _, result = await ask_user(agent, client)
    assert result.structured_content is not None
    assert result.structured_content["planStatus"] == "awaiting_review"
    assert person is None or person.forms == []


async def test_elicitation_invalid_review_request_shows_no_form(agent: AgentClient) -> None:
    person = Person()
    async with open_client(agent, person) as client:
        result = await client.call_tool("request_user_review", {"stepId": "x", "summary": "?"})
    assert result.is_error
    assert person.forms == []


@pytest.mark.parametrize("state", ["nonsense", "[]"])
async def test_elicitation_invalid_request_state_raises_mcp_error(
    agent: AgentClient, state: str
) -> None:
    async with open_client(agent, Person()) as client:
        with pytest.raises(MCPError, match="Invalid requestState"):
            await client.session.call_tool("request_user_review", {}, request_state=state)


async def test_elicitation_state_naming_review_of_other_org_is_rejected(
    world: OrgEnv, agent: AgentClient
) -> None:
    other_org = world.other_org
    world.other_org_may_change = True
    taken = await other_org.take(world.other_org_plan)
    review = await other_org.call("request_user_review", stepId=taken["stepId"], summary="?")
    responses: wire.InputResponses = {
        "decision": wire.ElicitResult(action="accept", content={"decision": "approve"})
    }
    async with open_client(agent, Person()) as client:
        result = await client.session.call_tool(
            "request_user_review",
            {},
            request_state=json.dumps({"planId": review["planId"], "reviewId": review["reviewId"]}),
            input_responses=responses,
        )
    assert isinstance(result, wire.CallToolResult)
    assert result.is_error
    assert (await other_org.status(world.other_org_plan))["status"] == "awaiting_review"
