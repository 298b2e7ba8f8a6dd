"""The MCP tasks extension: a review request becomes a task of the client that sent it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import mcp_types as wire
import pytest
from mcp import Client, MCPError
from mcp.client.extension import advertise

from org_env import AgentClient, Body, OrgEnv
from transport.full_app import free_port
from transport.tasks_client import CreatedTask, Tasks, send
from transport.test_elicitation import Person, open_client
from waybook.core.decision_context import Channel, ReviewPolicy
from waybook.transport.mcp.tools import TASKS_EXTENSION

MODERN: Literal["2026-07-28"] = "2026-07-28"


@asynccontextmanager
async def open_http(agent: AgentClient, tasks: Tasks | None = None) -> AsyncIterator[Client]:
    """Serve the application over HTTP; yield an MCP client of this agent."""
    extensions = [tasks] if tasks else None
    async with (
        free_port(agent) as address,
        Client(f"{address}/mcp", mode=MODERN, extensions=extensions) as client,
    ):
        yield client


async def take_step(agent: AgentClient, **more: object) -> tuple[Body, Body]:
    """Claim a step of a new plan; return the plan and the arguments of a review request."""
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="s")
    review = {"stepId": taken["stepId"], "summary": "Right?", "questions": ["Why?"], **more}
    return plan, {**review, "sessionId": "s"}


async def request_task(client: Client, review: Body) -> CreatedTask:
    result = await client.session.call_tool("request_user_review", review, allow_claimed=True)
    assert isinstance(result, CreatedTask), result
    return result


async def decide(agent: AgentClient, plan: Body, decision: str) -> None:
    named = {"planId": plan["planId"], "decision": decision}
    await agent.call("submit_user_decision", **named, feedback="Add lakes.")


@pytest.mark.parametrize(
    ("decision", "step_status", "why"),
    [
        ("approve", "completed", "Claim the next step."),
        ("modify", "in_progress", "Claim the step again; its instructions have the feedback."),
        ("skip", "skipped", "Claim the next step."),
        ("reject", "failed", "See how the plan ended."),
    ],
)
async def test_review_task_completes_with_the_decision_as_result(
    agent: AgentClient, decision: str, step_status: str, why: str
) -> None:
    plan, review = await take_step(agent, resultSummary="Nile")

    async def between(_: CreatedTask) -> None:
        await decide(agent.acting_as("bob", Channel.DASHBOARD), plan, decision)

    tasks = Tasks(between)
    async with open_http(agent, tasks) as client:
        result = await client.call_tool("request_user_review", review)
    (task,) = tasks.created
    assert result.structured_content == {
        "planId": plan["planId"],
        "reviewId": task.task_id,
        "stepId": review["stepId"],
        "reviewUrl": f"http://127.0.0.1:8750/plans/{plan['planId']}#review",
        "stepStatus": step_status,
        "decision": decision,
        "feedback": "Add lakes.",
        "decidedBy": "bob",
        "decidedAt": "2030-01-01T12:00:00+00:00",
        "next": {"tool": "get_next_step", "args": {"planId": plan["planId"]}, "why": why},
    }
    assert [polled["status"] for polled in tasks.polled] == ["working", "completed"]
    if decision == "modify":
        again = await agent.take(plan, sessionId="s")
        assert (again["stepId"], again["attempt"]) == (review["stepId"], 2)
        assert again["instructions"].endswith("Add lakes.")


async def test_review_task_has_the_fields_the_mcp_tasks_extension_requires(
    agent: AgentClient,
) -> None:
    plan, review = await take_step(agent)
    async with open_http(agent, Tasks()) as client:
        task = await request_task(client, review)
        polled = await send(client.session, "tasks/get", task.task_id)
    status = (await agent.status(plan))["openReview"]
    shape = {
        "taskId": status["reviewId"],
        "status": "working",
        "statusMessage": f"A person decides: {status['reviewUrl']}",
        "createdAt": "2030-01-01T12:00:00+00:00",
        "lastUpdatedAt": "2030-01-01T12:00:00+00:00",
        "ttlMs": None,
        "pollIntervalMs": 5_000,
    }
    created = task.model_dump(by_alias=True, exclude={"meta", "result_type"})
    assert created == shape
    assert polled == shape


async def test_repeated_review_request_returns_same_task_or_decision(agent: AgentClient) -> None:
    plan, review = await take_step(agent, idempotencyKey="k")
    async with open_http(agent, Tasks()) as client:
        task = await request_task(client, review)
        assert (await request_task(client, review)).task_id == task.task_id
        await decide(agent, plan, "approve")
        result = await client.call_tool("request_user_review", review)
        before = await send(client.session, "tasks/get", task.task_id)
        await agent.work_through(plan)
        assert await send(client.session, "tasks/get", task.task_id) == before
    assert result.structured_content is not None
    assert result.structured_content["decision"] == "approve"


async def test_only_accepted_review_requests_create_mcp_tasks(agent: AgentClient) -> None:
    tasks = Tasks()
    plan, _ = await take_step(agent)
    async with open_http(agent, tasks) as client:
        result = await client.call_tool("get_plan_status", {"planId": plan["planId"]})
        refused = await client.call_tool("request_user_review", {"stepId": "x", "summary": "?"})
    assert (result.is_error, refused.is_error) == (False, True)
    assert tasks.created == []


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_mcp_task_of_another_org_is_not_found(
    world: OrgEnv, agent: AgentClient, method: str
) -> None:
    _, review = await take_step(agent)
    requested = await agent.call("request_user_review", **review)
    more: Body = {"inputResponses": {}} if method == "tasks/update" else {}
    async with open_http(world.other_org, Tasks()) as client:
        for task_id in (requested["reviewId"], "nonexistent-12345", ""):
            with pytest.raises(MCPError, match="Task not found") as refused:
                await send(client.session, method, task_id, **more)
            assert refused.value.code == wire.INVALID_PARAMS


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_task_request_of_client_without_tasks_extension_is_refused(
    agent: AgentClient, method: str
) -> None:
    more: Body = {"inputResponses": {}} if method == "tasks/update" else {}
    async with open_http(agent) as client:
        with pytest.raises(MCPError) as refused:
            await send(client.session, method, "x", **more)
    assert refused.value.code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY
    needed: Body = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    assert refused.value.error.data == needed


async def test_task_request_with_different_ids_in_header_and_body_is_refused(
    agent: AgentClient,
) -> None:
    _, review = await take_step(agent)
    async with open_http(agent, Tasks()) as client:
        task = await request_task(client, review)

        class Unnamed(wire.Request[dict[str, Any], str]):
            """Request about a task without the HTTP header that names the task."""

        request = Unnamed(method="tasks/get", params={"taskId": task.task_id})
        with pytest.raises(MCPError, match="header does not match") as refused:
            await client.session.send_request(request, wire.EmptyResult)
    assert refused.value.code == wire.HEADER_MISMATCH


async def test_older_client_gets_a_review_instead_of_a_task(agent: AgentClient) -> None:
    plan, review = await take_step(agent)
    async with free_port(agent) as address:
        extensions = [advertise(TASKS_EXTENSION)]
        async with Client(f"{address}/mcp", mode="legacy", extensions=extensions) as client:
            offered = client.server_capabilities.extensions or {}
            result = await client.call_tool("request_user_review", review)
            with pytest.raises(MCPError) as refused:
                await send(client.session, "tasks/get", "x")
    assert TASKS_EXTENSION not in offered
    assert refused.value.code == wire.METHOD_NOT_FOUND
    assert result.structured_content is not None
    assert result.structured_content["planStatus"] == "awaiting_review"
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_canceling_a_review_task_leaves_the_review_open(agent: AgentClient) -> None:
    plan, review = await take_step(agent)
    async with open_http(agent, Tasks()) as client:
        task = await request_task(client, review)
        assert await send(client.session, "tasks/cancel", task.task_id) == {}
        assert (await send(client.session, "tasks/get", task.task_id))["status"] == "working"
        await decide(agent, plan, "approve")
        assert await send(client.session, "tasks/cancel", task.task_id) == {}
        assert (await send(client.session, "tasks/get", task.task_id))["status"] == "completed"


async def test_canceling_the_plan_cancels_the_review_task(agent: AgentClient) -> None:
    plan, review = await take_step(agent)
    cancel = {"action": "cancel_plan", "reason": "no use"}
    async with open_http(agent, Tasks()) as client:
        task = await request_task(client, review)
        await agent.call("modify_plan", planId=plan["planId"], modifications=[cancel])
        polled = await send(client.session, "tasks/get", task.task_id)
        answer = {"decision": {"action": "accept", "content": {"decision": "approve"}}}
        await send(client.session, "tasks/update", task.task_id, inputResponses=answer)
    assert (polled["status"], "result" in polled) == ("cancelled", False)
    assert polled["statusMessage"] == "The plan ended before a person decided."
    assert (await agent.status(plan))["status"] == "failed"


@asynccontextmanager
async def open_with_forms(agent: AgentClient, tasks: Tasks) -> AsyncIterator[Client]:
    person = Person()
    async with open_client(agent, person, extensions=[tasks]) as client:
        yield client
    assert person.forms == []


async def test_answered_form_in_a_review_task_decides_the_review(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan, review = await take_step(agent)
    async with open_with_forms(agent, Tasks()) as client:
        task = await request_task(client, review)
        polled = await send(client.session, "tasks/get", task.task_id)
        form = polled["inputRequests"]["decision"]
        content = {"decision": "modify", "feedback": "Add lakes.", "planId": "forged"}
        answer = {"other": {}, "decision": {"action": "accept", "content": content}}
        update = {"inputResponses": answer}
        assert await send(client.session, "tasks/update", task.task_id, **update) == {}
        ended = await send(client.session, "tasks/get", task.task_id)
        assert await send(client.session, "tasks/update", task.task_id, **update) == {}
    assert polled["status"] == "input_required"
    assert (form["method"], form["params"]["mode"]) == ("elicitation/create", "form")
    assert form["params"]["message"] == "Right?\n? Why?"
    assert ended["result"]["structuredContent"]["decision"] == "modify"
    entry = (await world.entries(agent.org_id, plan["planId"]))[-1]
    assert '"place": "task"' in str(entry.details).replace('":"', '": "')
    again = await agent.take(plan, sessionId="s")
    assert (again["stepId"], again["attempt"]) == (review["stepId"], 2)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_form_of_a_task_leaves_review_open(agent: AgentClient, action: str) -> None:
    _, review = await take_step(agent)
    async with open_with_forms(agent, Tasks()) as client:
        task = await request_task(client, review)
        answer = {"inputResponses": {"decision": {"action": action}}}
        assert await send(client.session, "tasks/update", task.task_id, **answer) == {}
        polled = await send(client.session, "tasks/get", task.task_id)
    assert polled["status"] == "input_required"


@pytest.mark.parametrize(
    "response", [{"action": "accept", "content": {"decision": "modify"}}, {"action": "perhaps"}, 1]
)
async def test_invalid_answer_to_a_task_form_is_refused(
    agent: AgentClient, response: object
) -> None:
    plan, review = await take_step(agent)
    async with open_with_forms(agent, Tasks()) as client:
        task = await request_task(client, review)
        answer = {"inputResponses": {"decision": response}}
        with pytest.raises(MCPError) as refused:
            await send(client.session, "tasks/update", task.task_id, **answer)
    assert refused.value.code == wire.INVALID_PARAMS
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_requester_under_policy_human_gets_a_task_without_form(
    world: OrgEnv, agent: AgentClient
) -> None:
    await world.set_policy(ReviewPolicy.HUMAN)
    _, review = await take_step(agent)
    async with open_with_forms(agent, Tasks()) as client:
        task = await request_task(client, review)
        polled = await send(client.session, "tasks/get", task.task_id)
        answer = {"decision": {"action": "accept", "content": {"decision": "approve"}}}
        with pytest.raises(MCPError, match="The decision was not accepted"):
            await send(client.session, "tasks/update", task.task_id, inputResponses=answer)
    assert (polled["status"], "inputRequests" in polled) == ("working", False)


async def test_task_subscription_of_client_without_tasks_extension_is_refused(
    agent: AgentClient,
) -> None:
    request = wire.SubscriptionsListenRequest.model_validate(
        {"method": "subscriptions/listen", "params": {"notifications": {"taskIds": ["x"]}}}
    )
    async with open_http(agent) as client:
        with pytest.raises(MCPError) as refused:
            await client.session.send_request(request, wire.EmptyResult)
    assert refused.value.code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY
