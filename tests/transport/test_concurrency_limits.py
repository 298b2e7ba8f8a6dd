"""Concurrency limits of each org: excess requests wait in order and delay no other org."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from uuid import UUID

import httpx2
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from patience import PATIENCE_SECONDS
from transport.fake_dispatcher import CALLER, RecordingDispatcher, make_gateway
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import Unauthenticated
from waybook.transport.http.app import AllowedHosts, RequestPipeline
from waybook.transport.http.authentication import AuthGate
from waybook.transport.http.rate_limits import (
    MAX_CONCURRENT_PAGES,
    ConcurrencyLimiter,
    RequestThrottle,
)

LONG = 3_600.0


@dataclass
class Made:
    """Application whose requests are not answered before the test sets `done`."""

    begun: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(Request(scope).headers["x-org"])
        await self.done.wait()
        await PlainTextResponse("a page")(scope, receive, send)


async def settled() -> None:
    """Let all asyncio tasks run until they wait."""
    for _ in range(100):
        await asyncio.sleep(0)


def behind_the_gate(app: ASGIApp) -> httpx2.AsyncClient:
    async def browser(request: Request) -> Caller | None:
        if request.headers["x-org"] == "none":
            return None
        org_id = UUID(int=int(request.headers["x-org"]))
        return replace(CALLER, org_id=org_id, channel=Channel.DASHBOARD)

    async def bearer(_: str, __: Channel) -> Caller:
        raise Unauthenticated

    pace = RequestThrottle(
        make_gateway(RecordingDispatcher()),
        page_limiter=ConcurrencyLimiter(MAX_CONCURRENT_PAGES, LONG),
    )
    gate = AuthGate(bearer=bearer, browser=browser)
    transport = httpx2.ASGITransport(
        RequestPipeline(app=app, hosts=AllowedHosts(), gate=gate, pace=pace)
    )
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


async def test_rendering_pages_of_one_org_does_not_delay_another_org() -> None:
    made = Made()
    async with (
        behind_the_gate(made) as client,
        asyncio.timeout(PATIENCE_SECONDS),
        asyncio.TaskGroup() as group,
    ):
        for org in "1" * 20 + "2":
            group.create_task(client.get("/plans", headers={"x-org": org}))
        await settled()
        assert sorted(made.begun) == ["1"] * MAX_CONCURRENT_PAGES + ["2"]
        made.done.set()
    assert made.begun.count("1") == 20


async def test_pages_without_sign_in_are_rendered_one_at_a_time() -> None:
    made = Made()
    async with (
        behind_the_gate(made) as client,
        asyncio.timeout(PATIENCE_SECONDS),
        asyncio.TaskGroup() as group,
    ):
        for _ in range(20):
            group.create_task(client.get("/sign-in", headers={"x-org": "none"}))
        group.create_task(client.get("/plans", headers={"x-org": "1"}))
        await settled()
        assert sorted(made.begun) == ["1", "none"]
        made.done.set()
    assert made.begun.count("none") == 20


async def begin(places: ConcurrencyLimiter, org: str, begun: list[str], end: asyncio.Event) -> None:
    """Wait for a slot, append the org to `begun`, and keep the slot until `end` is set."""
    async with places.slot(org):
        begun.append(org)
        await end.wait()


async def test_releasing_a_request_slot_twice_admits_only_a_single_request() -> None:
    places, begun, end = ConcurrencyLimiter(1, LONG), list[str](), asyncio.Event()
    async with places.slot("ours") as give_up:
        waiting = [asyncio.create_task(begin(places, "ours", begun, end)) for _ in range(2)]
        await settled()
        assert begun == []
        give_up()
        give_up()
        await settled()
        assert len(begun) == 1
    await settled()
    assert len(begun) == 1
    end.set()
    await asyncio.gather(*waiting)


async def test_request_slot_held_too_long_goes_to_the_next_request() -> None:
    places = ConcurrencyLimiter(1, max_seconds=0)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(3):
            await stack.enter_async_context(places.slot("ours"))


async def test_canceling_a_waiting_request_leaves_the_slot_available() -> None:
    places, begun, end = ConcurrencyLimiter(1, LONG), list[str](), asyncio.Event()
    async with places.slot("ours"):
        waiting = [asyncio.create_task(begin(places, "ours", begun, end)) for _ in range(3)]
        await settled()
        waiting[0].cancel()
    waiting[1].cancel()  # This task has just received the free slot.
    end.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(begun) in {1, 2}
    async with asyncio.timeout(PATIENCE_SECONDS), places.slot("ours"):
        pass
