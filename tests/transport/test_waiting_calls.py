"""Calls that wait for a step over HTTP, also if the client disconnects or the server stops."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client

from org_env import Body, OrgEnv, make_step
from patience import PATIENCE_SECONDS
from transport.fake_dispatcher import serve
from transport.full_app import gateway_of
from transport.messages import LEGACY, make_request, modern_headers
from waiting_env import WaitingEnv, answered, canceled
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.rate_limits import ConcurrencyLimiter, RequestThrottle
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

#: Number of requests of the org that may be in progress at the same time, not counting those that
#: wait for a step.
SLOTS = 2
HEADERS = {"2025-11-25": LEGACY, "2026-07-28": modern_headers("tools/call", "get_next_step")}


@pytest.fixture
def env(own_world: OrgEnv) -> WaitingEnv:
    return WaitingEnv(own_world)


@asynccontextmanager
async def served(env: WaitingEnv) -> AsyncIterator[str]:
    gateway = gateway_of(env.agent)
    app = build_app(
        build_server(published_tools(), gateway, profile="all"),
        hosts=AllowedHosts(),
        ready=gateway.is_ready,
        pace=RequestThrottle(gateway, limiter=ConcurrencyLimiter(SLOTS, max_seconds=10_000)),
    )
    async with serve(app, env.bus.close) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def http_client() -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        trust_env=False, timeout=PATIENCE_SECONDS, limits=limits
    ) as client:
        yield client


async def blocked_plan(env: WaitingEnv) -> tuple[Body, Body]:
    """Create a plan whose second step depends on the first; claim the first step."""
    plan = await env.agent.plan([make_step("1."), make_step("2.", dependsOn=[1])])
    return plan, await env.agent.take(plan)


def next_step_call(plan: Body, **more: object) -> bytes:
    arguments = {"planId": plan["planId"], "waitSeconds": 55, **more}
    return make_request("tools/call", name="get_next_step", arguments=arguments)


def body_of(response: httpx2.Response) -> Body:
    result = response.json()["result"]
    body: Body = json.loads(result["content"][0]["text"])
    assert not result.get("isError"), body
    return body


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_waiting_http_call_is_answered_when_step_is_free(
    env: WaitingEnv, headers: dict[str, str]
) -> None:
    plan, taken = await blocked_plan(env)
    async with served(env) as url, http_client() as http:
        post = asyncio.create_task(http.post(url, headers=headers, content=next_step_call(plan)))
        await env.until(lambda: len(env.calls) == 1)
        await env.agent.submit(taken)
        assert body_of(await post)["stepOrder"] == 2


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_disconnected_client_leaves_the_wait_queue_and_gets_no_step(
    env: WaitingEnv, headers: dict[str, str]
) -> None:
    plan, taken = await blocked_plan(env)
    async with served(env) as url, http_client() as http:
        post = asyncio.create_task(http.post(url, headers=headers, content=next_step_call(plan)))
        await env.until(lambda: len(env.calls) == 1)
        await canceled(post)
        await env.until(lambda: len(env.calls) == 0)
        await env.agent.submit(taken)
        assert (await env.agent.take(plan))["attempt"] == 1


async def test_waiting_http_calls_do_not_use_up_concurrency_slots(env: WaitingEnv) -> None:
    plan, _ = await blocked_plan(env)
    async with served(env) as url, http_client() as http:
        posts = [
            asyncio.create_task(http.post(url, headers=LEGACY, content=next_step_call(plan)))
            for _ in range(4 * SLOTS)
        ]
        await env.until(lambda: len(env.calls) == len(posts))
        ping = make_request("tools/call", name="ping", arguments={})
        assert body_of(await http.post(url, headers=LEGACY, content=ping))
        for post in posts:
            await canceled(post)
        await env.until(lambda: len(env.calls) == 0)


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_shutdown_answers_waiting_http_calls(
    env: WaitingEnv, headers: dict[str, str]
) -> None:
    plan, _ = await blocked_plan(env)
    async with http_client() as http:
        async with served(env) as url:
            posts = [
                asyncio.create_task(http.post(url, headers=headers, content=next_step_call(plan)))
                for _ in range(10)
            ]
            await env.until(lambda: len(env.calls) == len(posts))
        replies = [body_of(await post) for post in posts]
    assert {reply["status"] for reply in replies} == {"no_pending_steps"}


async def test_waiting_call_is_counted_once_in_the_metrics(env: WaitingEnv) -> None:
    plan, taken = await blocked_plan(env)
    async with served(env) as url, Client(url) as client:
        arguments = {"planId": plan["planId"], "waitSeconds": 55}
        call = asyncio.create_task(client.call_tool("get_next_step", arguments))
        await env.until(lambda: len(env.calls) == 1)
        before = env.agent.dispatcher.figures.counted["get_next_step", "ok"]
        await env.agent.submit(taken)
        await answered(call)  # type: ignore[arg-type]  # a result of the protocol library
    assert env.agent.dispatcher.figures.counted["get_next_step", "ok"] == before + 1
