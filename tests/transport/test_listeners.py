"""An org at its limit of event subscribers does not keep other orgs from subscribing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from typing import NamedTuple
from uuid import UUID

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from auth_env import bearer, make_token, served
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from waybook.app.accounts.authentication import start_by_token
from waybook.app.accounts.members import IssuedToken
from waybook.errors import RateLimited, Unavailable
from waybook.transport.gateway import StreamLimiter
from waybook.transport.http.authentication import SESSION
from waybook.transport.http.dashboard import live
from waybook.transport.mcp import subscriptions

ORGS = st.integers(0, 3).map(lambda number: UUID(int=number))


@given(st.lists(st.tuples(ORGS, st.booleans()), max_size=60), st.integers(1, 6), st.integers(1, 3))
def test_live_stream_is_refused_only_at_org_or_total_limit(
    moves: list[tuple[UUID, bool]], most: int, most_of_org: int
) -> None:
    listeners, inside = StreamLimiter(most, most_of_org), list[tuple[UUID, ExitStack]]()
    for org_id, comes in moves:
        theirs = [stream for stream in inside if stream[0] == org_id]
        error = listeners.limit_error(org_id)
        assert isinstance(error, RateLimited) == (len(theirs) == most_of_org)
        assert isinstance(error, Unavailable) == (len(inside) == most and len(theirs) < most_of_org)
        if comes and error is None:
            stack = ExitStack()
            stack.enter_context(listeners.acquire(org_id))
            inside.append((org_id, stack))
        elif theirs and not comes:
            theirs[0][1].close()
            inside.remove(theirs[0])


class Page(NamedTuple):
    """Open event stream, as a dashboard page receives it."""

    complete: httpx2.Response
    lines: AsyncIterator[str]


async def make_page(stack: AsyncExitStack, address: str, secret: str) -> Page:
    """Open an event stream in this web session, and read the first line."""
    cookies = {SESSION: secret}
    client = await stack.enter_async_context(
        httpx2.AsyncClient(
            base_url=address, cookies=cookies, trust_env=False, timeout=PATIENCE_SECONDS
        )
    )
    answer = await stack.enter_async_context(client.stream("GET", "/live"))
    page = Page(answer, answer.aiter_lines())
    async with asyncio.timeout(PATIENCE_SECONDS):
        first = await anext(page.lines)
    assert ("RATE_LIMITED" in first) == (answer.status_code == 429)
    return page


async def test_org_at_the_stream_limit_does_not_affect_another_org(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS_PER_ORG", 2)
    ours, theirs = [
        await start_by_token(world.dispatcher.services, (await make_token(agent)).secret)
        for agent in (world.agent, world.other_org)
    ]
    async with served(world) as address, AsyncExitStack() as stack:
        pages = [await make_page(stack, address, ours) for _ in range(3)]
        assert [page.complete.status_code for page in pages] == [200, 200, 429]
        assert pages[-1].complete.headers["retry-after"] == "30"
        assert (await make_page(stack, address, theirs)).complete.status_code == 200


async def test_org_at_the_subscription_limit_does_not_affect_another_org(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MAX_STREAMS_PER_ORG", 1)
    ours, theirs = await make_token(world.agent), await make_token(world.other_org)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        served(world) as address,
        AsyncExitStack() as stack,
    ):
        ann, ned = [await make_client(stack, address, token) for token in (ours, theirs)]
        await stack.enter_async_context(ann.listen(resources_list_changed=True))
        with pytest.raises(MCPError, match="already") as refused:
            await stack.enter_async_context(ann.listen(resources_list_changed=True))
        assert refused.value.error.data["error"]["code"] == "RATE_LIMITED"
        await stack.enter_async_context(ned.listen(resources_list_changed=True))


async def make_client(stack: AsyncExitStack, address: str, issued: IssuedToken) -> Client:
    http = await stack.enter_async_context(
        httpx2.AsyncClient(headers=bearer(issued), trust_env=False, timeout=PATIENCE_SECONDS)
    )
    transport = streamable_http_client(f"{address}/mcp", http_client=http)
    return await stack.enter_async_context(Client(transport, mode="2026-07-28"))
