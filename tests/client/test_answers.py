"""Client library: how it handles any answer, and how loops wait for steps without polling."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest

from org_env import AgentClient, Body, make_step
from patience import NOTICE_SECONDS, PATIENCE_SECONDS
from waybook.app.registry import TOOLS
from waybook.client import NO_RETRY, Client, Retry, Unreachable
from waybook.client.client import KEYED_TOOLS, REPEATABLE_TOOLS
from waybook.errors import Busy, Forbidden, RateLimited, Unavailable, WaybookError

RETRY = Retry(deadline_seconds=PATIENCE_SECONDS, first_delay_seconds=0.001, max_delay_seconds=0.001)
#: Answer of the fake server: HTTP status, headers and body.
HttpAnswer = tuple[int, str, str]
OK: HttpAnswer = (200, "", '{"result": {"structuredContent": {"answer": 42}}}')


def refusal(error: WaybookError) -> HttpAnswer:
    text = json.dumps(error.as_json())
    result = {"isError": True, "content": [{"type": "text", "text": text}]}
    return 200, "", json.dumps({"result": result})


@asynccontextmanager
async def proxy(*answers: HttpAnswer) -> AsyncIterator[tuple[Client, list[dict[str, Any]]]]:
    """Serve these answers in turn; yield a client, and a list of its requests."""
    requests: list[dict[str, Any]] = []
    left = [*answers]
    connections: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that stops waiting may close the connection before the end of its request.
        with closing(writer), suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = (
                int(line.split(b":")[1])
                for line in head.splitlines()
                if line.lower().startswith(b"content-length")
            )
            requests.append(json.loads(await reader.readexactly(length)))
            status, headers, body = left.pop(0)
            writer.write(
                f"HTTP/1.1 {status} X\r\n{headers}connection: close\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            await writer.drain()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(f"http://127.0.0.1:{port}", retry=RETRY) as client:
        yield client, requests
    # Before Python 3.11.7, a task leaves its connection open if it is canceled at the end of the
    # test, so wait for all tasks.
    await asyncio.gather(*connections)


@pytest.mark.parametrize(
    "answer",
    [
        (503, "", "<html>maintenance</html>"),
        (502, "", ""),
        (429, "retry-after: 0\r\n", "slow down"),
        refusal(Busy(retryAfter=0)),
        refusal(RateLimited(retryAfter=0)),
        refusal(Unavailable(retryAfter=0)),
    ],
)
async def test_client_retries_with_same_idempotency_key_after_transient_error(
    answer: HttpAnswer,
) -> None:
    async with proxy(answer, answer, OK) as (client, requests):
        assert await client.call("modify_plan", planId="p") == {"answer": 42}
    keys = {request["params"]["arguments"]["idempotencyKey"] for request in requests}
    assert (len(requests), len(keys)) == (3, 1)


@pytest.mark.parametrize("answer", [(503, "", ""), refusal(Unavailable(retryAfter=0))])
async def test_client_does_not_repeat_call_of_unknown_tool_after_unavailable(
    answer: HttpAnswer,
) -> None:
    async with proxy(answer, OK) as (client, requests):
        with pytest.raises(Unavailable):
            await client.call("new_tool")
    assert len(requests) == 1


async def test_client_repeats_call_of_unknown_tool_after_busy_error() -> None:
    async with proxy(refusal(Busy(retryAfter=0)), OK) as (client, requests):
        assert await client.call("new_tool") == {"answer": 42}
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(Forbidden()), Forbidden),
        ((401, "", json.dumps(Forbidden().as_json())), Forbidden),
        ((404, "", "<html>no such page</html>"), Unavailable),
        ((200, "", '{"error": {"code": -32603, "message": "Internal error"}}'), Unavailable),
    ],
)
async def test_client_raises_permanent_error_after_a_single_request(
    answer: HttpAnswer, kind: type[WaybookError]
) -> None:
    async with proxy(answer, OK) as (client, requests):
        with pytest.raises(kind):
            await client.call("get_plan_status", planId="p")
    assert len(requests) == 1


async def test_client_raises_immediately_if_retry_after_exceeds_deadline() -> None:
    async with proxy((503, "retry-after: 3600\r\n", ""), OK) as (client, requests):
        with pytest.raises(Unreachable) as late:
            await client.call("ping")
    assert (len(requests), late.value.details) == (1, {"retryAfter": 3600})


async def test_each_call_has_the_given_idempotency_key_or_a_new_key() -> None:
    given = ["mine", None, "", "  "]
    async with proxy(*[OK] * 5) as (client, requests):
        for key in given:
            await client.call("modify_plan", planId="p", idempotencyKey=key)
        await client.call("modify_plan", planId="p")
    keys = [request["params"]["arguments"]["idempotencyKey"] for request in requests]
    assert keys[0] == "mine"
    assert all(key.strip() for key in keys)
    assert len({*keys}) == 5


def test_client_and_server_agree_which_calls_can_be_repeated() -> None:
    keyed = {n for n, tool in TOOLS.items() if "idempotency_key" in tool.arguments.model_fields}
    assert keyed == KEYED_TOOLS
    reading = {name for name, tool in TOOLS.items() if tool.reads_only}
    assert reading - {"extract_data"} == REPEATABLE_TOOLS


# Tests of loops that wait at the server.


async def blocked_plan(agent: AgentClient, more: int) -> tuple[Body, Body]:
    """Create a plan and claim its first step, on which `more` other steps depend."""
    steps = [make_step("1."), *(make_step("More.", dependsOn=[1]) for _ in range(more))]
    plan = await agent.plan(steps)
    return plan, await agent.take(plan)


async def until_waiting(agent: AgentClient, calls: int) -> None:
    async with asyncio.timeout(NOTICE_SECONDS):
        while len(agent.dispatcher.services.waiting) < calls:  # noqa: ASYNC110 - calls are silent
            await asyncio.sleep(0.001)


async def work(client: Client, plan: Body, session_id: str | None = None) -> list[str]:
    """Complete steps until the plan is complete; return the ids of the completed steps."""
    done = []
    async for step in client.steps(plan["planId"], session_id=session_id):
        async with step:
            await step.submit("found")
            done.append(step.step_id)
    return done


async def test_loop_over_steps_waits_for_a_step_without_polling(
    address: str, agent: AgentClient
) -> None:
    plan, taken = await blocked_plan(agent, 1)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = asyncio.create_task(work(client, plan))
        await until_waiting(agent, 1)
        assert agent.dispatcher.figures.counted["get_next_step", "ok"] == 2
        await agent.submit(taken)
        assert await working == plan["stepIds"][1:]
    # The four calls are the claim in `blocked_plan`, and three calls of the loop: the first call,
    # the call that waits, and the call that finds the plan complete.
    assert agent.dispatcher.figures.counted["get_next_step", "ok"] == 4


async def test_concurrent_loops_of_a_session_get_different_steps(
    address: str, agent: AgentClient
) -> None:
    plan, taken = await blocked_plan(agent, 3)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = [asyncio.create_task(work(client, plan)) for _ in range(3)]
        await until_waiting(agent, 3)
        await agent.submit(taken)
        done = [step_id for task in working for step_id in await task]
    assert sorted(done) == sorted(plan["stepIds"][1:])


async def test_canceling_a_loop_over_steps_ends_the_wait_for_steps(
    address: str, agent: AgentClient
) -> None:
    plan, taken = await blocked_plan(agent, 1)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = asyncio.create_task(work(client, plan))
        await until_waiting(agent, 1)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        while len(agent.dispatcher.services.waiting):  # noqa: ASYNC110 - calls are silent
            await asyncio.sleep(0.001)
    await agent.submit(taken)
    assert (await agent.take(plan))["attempt"] == 1


async def test_client_adds_wait_seconds_to_the_timeout_of_a_call() -> None:
    async with proxy(OK) as (client, _), Client(client.url, timeout=0, retry=NO_RETRY) as hasty:
        with pytest.raises(Unreachable):
            await hasty.call("get_next_step", planId="p")
        reply = await hasty.call("get_next_step", planId="p", waitSeconds=20)
    assert reply == {"answer": 42}
