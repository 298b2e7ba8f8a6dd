"""Elicitation: an MCP client that can show forms presents a review to its user."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as wire
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.client.extension import ClientExtension

from org_env import AgentClient, Body, OrgEnv
from patience import NOTICE_SECONDS
from transport.full_app import gateway_of
from waybook.transport.mcp import tools
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

Action = Literal["accept", "decline", "cancel"]
Era = Literal["legacy", "2026-07-28"]


@dataclass
class Person:
    """Simulated user of an MCP client, who gives the same answer to each form."""

    action: Action = "accept"
    content: dict[str, Any] | None = None
    forms: list[wire.ElicitRequestFormParams] = field(default_factory=list)

    #: Event that a test sets when the user may answer the form.
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.ready.set()

    async def complete(
        self, context: ClientRequestContext, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult:
        del context
        assert isinstance(params, wire.ElicitRequestFormParams)
        self.forms.append(params)
        await self.ready.wait()
        return wire.ElicitResult(action=self.action, content=self.content)


@asynccontextmanager
async def open_client(
    agent: AgentClient,
    person: Person | None,
    era: Era = "2026-07-28",
    *,
    is_persistent: bool = False,
    extensions: Sequence[ClientExtension] | None = None,
) -> AsyncIterator[Client]:
    server = build_server(published_tools(), gateway_of(agent), is_persistent=is_persistent)
    callback = person.complete if person else None
    async with Client(
        server, mode=era, elicitation_callback=callback, extensions=extensions
    ) as client:
        yield client


async def ask_user(
    agent: AgentClient, client: Client, **more: object
) -> tuple[Body, wire.CallToolResult]:
    """Create a plan, and request a review of its step; return the plan and the call's result."""
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="s")
    review = {"stepId": taken["stepId"], "summary": "Right?", "questions": ["Why?"], **more}
    return plan, await client.call_tool("request_user_review", {**review, "sessionId": "s"})


async def test_approval_in_a_review_form_continues_the_plan(
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


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_review_stays_open_if_the_review_form_is_not_answered(
    agent: AgentClient, era: Era, action: Action
) -> None:
    async with open_client(agent, Person(action), era, is_persistent=era == "legacy") as client:
        plan, result = await ask_user(agent, client)
    assert result.structured_content is not None
    assert result.structured_content["planStatus"] == "awaiting_review"
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_invalid_answer_in_a_review_form_leaves_the_review_open(agent: AgentClient) -> None:
    async with open_client(agent, Person(content={"decision": "modify"})) as client:
        plan, result = await ask_user(agent, client)
    assert result.is_error
    assert (await agent.status(plan))["status"] == "awaiting_review"


@pytest.mark.parametrize(
    ("person", "era"), [(None, "2026-07-28"), (Person(), "legacy"), (None, "legacy")]
)
async def test_review_stays_open_if_the_client_cannot_show_forms(
    agent: AgentClient, person: Person | None, era: Era
) -> None:
    async with open_client(agent, person, era) as client:
        _, result = await ask_user(agent, client)
    assert result.structured_content is not None
    assert result.structured_content["planStatus"] == "awaiting_review"
    assert person is None or person.forms == []


async def test_tool_reply_to_older_client_contains_decision_from_form(agent: AgentClient) -> None:
    person = Person(content={"decision": "approve", "feedback": ""})
    async with open_client(agent, person, "legacy", is_persistent=True) as client:
        plan, result = await ask_user(agent, client, resultSummary="Nile")
    assert [form.message for form in person.forms] == ["Right?\n? Why?"]
    assert result.structured_content is not None
    assert result.structured_content["decision"] == "approve"
    assert (await agent.status(plan))["status"] == "executing"


async def test_answer_to_a_form_is_stored_even_after_the_tool_call_ended(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "MAX_FORM_WAIT_SECONDS", 0.0)
    person = Person(content={"decision": "approve", "feedback": ""})
    person.ready.clear()
    async with open_client(agent, person, "legacy", is_persistent=True) as client:
        plan, result = await ask_user(agent, client, resultSummary="Nile")
        assert result.structured_content is not None
        assert result.structured_content["planStatus"] == "awaiting_review"
        person.ready.set()
        await wait_until_status(agent, plan, "executing")


async def test_number_of_forms_open_in_an_older_client_is_limited(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "MAX_FORM_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(tools, "MAX_OPEN_FORMS", 1)
    person = Person(content={"decision": "approve"})
    person.ready.clear()
    async with open_client(agent, person, "legacy", is_persistent=True) as client:
        for _ in range(3):
            _, result = await ask_user(agent, client)
            assert not result.is_error
    assert len(person.forms) == 1


async def wait_until_status(agent: AgentClient, plan: Body, status: str) -> None:
    async with asyncio.timeout(NOTICE_SECONDS):
        while (await agent.status(plan))["status"] != status:
            pass


async def test_invalid_review_request_shows_no_form(agent: AgentClient) -> None:
    person = Person()
    async with open_client(agent, person) as client:
        result = await client.call_tool("request_user_review", {"stepId": "x", "summary": "?"})
    assert result.is_error
    assert person.forms == []


@pytest.mark.parametrize("state", ["nonsense", "[]"])
async def test_mcp_request_state_with_invalid_content_raises_mcp_error(
    agent: AgentClient, state: str
) -> None:
    async with open_client(agent, Person()) as client:
        with pytest.raises(MCPError, match="Invalid requestState"):
            await client.session.call_tool("request_user_review", {}, request_state=state)


async def test_mcp_request_state_with_review_id_of_another_org_is_rejected(
    world: OrgEnv, agent: AgentClient
) -> None:
    other_org = world.other_org
    world.other_org_may_change = True
    taken = await other_org.take(world.other_org_plan)
    review = await other_org.review(taken, summary="?")
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
