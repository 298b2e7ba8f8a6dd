"""MCP clients behind a load balancer that alternates between two servers."""

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Literal

import httpx2
import mcp_types as wire
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import ResourceUpdated

from postgres_servers import Server, new_database
from preloaded_process import open_serve

COUNT = 2
PATIENCE_SECONDS = 30
Era = Literal["legacy", "2026-07-28"]
EVERY_ERA = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


class RoundRobin(httpx2.AsyncBaseTransport):
    """HTTP transport that sends each request to the next server."""

    def __init__(self, addresses: list[str]) -> None:
        self.counts: Counter[str] = Counter()
        self._addresses = itertools.cycle(addresses)
        self._transport = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        address = next(self._addresses)
        self.counts[address] += 1
        target = httpx2.URL(address)
        request.url = request.url.copy_with(host=target.host, port=target.port)
        request.headers["host"] = target.netloc.decode()
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        await self._transport.aclose()


@pytest.fixture(scope="module")
def addresses(eighteen: Server) -> Iterator[list[str]]:
    """Yield the addresses of two servers with one database."""
    with new_database(eighteen) as place, ExitStack() as stack:
        url = {"WAYBOOK_DATABASE_URL": place.app_dsn}
        yield [stack.enter_context(open_serve(**url))[1] for _ in range(COUNT)]


async def approve(
    context: ClientRequestContext, params: wire.ElicitRequestParams
) -> wire.ElicitResult:
    del context
    assert isinstance(params, wire.ElicitRequestFormParams)
    return wire.ElicitResult(action="accept", content={"decision": "approve"})


@asynccontextmanager
async def connected(addresses: list[str], era: Era) -> AsyncIterator[Client]:
    """Yield a client; check at the end that its requests went to the two servers in turn."""
    balancer = RoundRobin(addresses)
    async with httpx2.AsyncClient(transport=balancer) as http:
        transport = streamable_http_client("http://127.0.0.1/mcp", http_client=http)
        async with Client(transport, mode=era, elicitation_callback=approve) as client:
            yield client
    assert set(balancer.counts) == set(addresses)
    assert max(balancer.counts.values()) - min(balancer.counts.values()) <= 1


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return {**result.structured_content}


async def make_plan(client: Client, steps: int) -> str:
    made = await call(
        client,
        "create_research_plan",
        name="alternating",
        researchQuestion="Which server?",
        steps=[{"stepType": "search", "instructions": "Look."}] * steps,
    )
    return str(made["planId"])


@EVERY_ERA
async def test_plan_completes_if_each_request_goes_to_a_different_server(
    addresses: list[str], era: Era
) -> None:
    async with connected(addresses, era) as client:
        first, second = await client.list_tools(), await client.list_tools()
        assert [tool.name for tool in first.tools] == [tool.name for tool in second.tools]
        plan = await make_plan(client, 3)
        for _ in range(3):
            step = await call(client, "get_next_step", planId=plan, sessionId="one")
            held = {"stepId": step["stepId"], "attempt": step["attempt"], "sessionId": "one"}
            await call(client, "submit_step_result", **held, resultSummary="found")
        assert (await call(client, "get_plan_status", planId=plan))["status"] == "completed"
        assert (await client.list_prompts()).prompts


@EVERY_ERA
async def test_review_can_be_decided_with_requests_spread_over_several_servers(
    addresses: list[str], era: Era
) -> None:
    async with connected(addresses, era) as client:
        plan = await make_plan(client, 1)
        step = await call(client, "get_next_step", planId=plan, sessionId="one")
        review = {"stepId": step["stepId"], "summary": "Right?", "resultSummary": "Nile"}
        reply = await call(client, "request_user_review", **review, sessionId="one")
        if era == "legacy":
            # Without a session, the server cannot show a form, so the agent submits the decision of
            # the person.
            assert "decision" not in reply
            decision = {"planId": plan, "reviewId": reply["reviewId"], "decision": "approve"}
            reply = await call(client, "submit_user_decision", **decision, sessionId="one")
        assert (reply["decision"], reply["planStatus"]) == ("approve", "completed")


async def test_event_stream_of_one_server_reports_changes_on_all_servers(
    addresses: list[str],
) -> None:
    async with connected(addresses, "2026-07-28") as client:
        plan = await make_plan(client, 2)
        uri = f"waybook://plans/{plan}"
        async with client.listen(resource_subscriptions=[uri]) as subscription:
            for _ in range(2):
                # These two calls go to different servers.
                step = await call(client, "get_next_step", planId=plan, sessionId="one")
                await next_event(subscription, uri)
                held = {"stepId": step["stepId"], "attempt": step["attempt"], "sessionId": "one"}
                await call(client, "submit_step_result", **held, resultSummary="found")
                await next_event(subscription, uri)


async def next_event(subscription: Subscription, uri: str) -> None:
    """Wait until the subscription reports a change of the resource."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await anext(subscription) == ResourceUpdated(uri)


@EVERY_ERA
async def test_change_on_another_server_answers_a_waiting_call(
    addresses: list[str], era: Era
) -> None:
    async with connected(addresses, era) as worker, connected(addresses, era) as waiter:
        await waiter.list_tools()
        for _ in range(2):
            # The waiting call goes to one server in the first round, and to the other in the
            # second.
            plan = await make_plan(worker, 1)
            step = await call(worker, "get_next_step", planId=plan, sessionId="one")
            named = {"planId": plan, "sessionId": "two", "waitSeconds": PATIENCE_SECONDS}
            waiting = asyncio.create_task(call(waiter, "get_next_step", **named))
            await until_waiting(addresses)
            held = {"stepId": step["stepId"], "attempt": step["attempt"], "sessionId": "one"}
            await call(worker, "submit_step_result", **held, resultSummary="found")
            assert (await waiting)["status"] == "plan_complete"


async def until_waiting(addresses: list[str]) -> None:
    """Wait until one of the servers reports that a call is waiting."""
    async with httpx2.AsyncClient(trust_env=False) as http, asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for address in addresses:
                text = (await http.get(f"{address}/metrics")).text
                if re.search(r"^waybook_waiting_calls(?:{.*})? 1", text, re.MULTILINE):
                    return
