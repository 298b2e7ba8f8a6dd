"""The pace of whoever calls too often: slowed down before their body is read, refused cheaply.

A client that repeats its call as soon as it is refused would else cost as much as if it were
served. So its requests wait at the gate for a moment; what is still too much is then refused
without asking the protocol library.

Places at work: of each org only a few requests are worked on at the same time.

A process has one processor, and what is begun at once is done in turns: with a hundred requests of
one org under way, a request of another would wait for a hundred turns. So the others of an org
wait at the gate. A request gives its place up when it begins to answer, or after half a second: by
then it waits for something else, a lock or a model, and does not need the processor.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Final
from uuid import UUID

from mcp_types import INTERNAL_ERROR
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from waybook.app.request.caller import Caller
from waybook.errors import RateLimited, WaybookError
from waybook.transport.gateway import RATE_COUNTED, ToolGateway
from waybook.transport.http.responses import json_response, retry_after_header
from waybook.transport.jsonrpc import compact_json, tool_called

#: Requests of an org that are worked on at the same time.
MAX_CONCURRENT: Final = 4
WAIT_TIMEOUT_SECONDS: Final = 0.5


class ConcurrencyLimiter:
    def __init__(self, each: int = MAX_CONCURRENT, patience: float = WAIT_TIMEOUT_SECONDS) -> None:
        """So many for each org, each kept for so many seconds."""
        self._each = each
        self._patience = patience
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, org: Hashable) -> AsyncIterator[Callable[[], None]]:
        """A place, in the order they came; gives the way to give it up before the end."""
        await self._take(org)
        given = False

        def give() -> None:
            nonlocal given
            if not given:
                given = True
                self._give(org)

        timer = asyncio.get_running_loop().call_later(self._patience, give)
        try:
            yield give
        finally:
            timer.cancel()
            give()

    async def _take(self, org: Hashable) -> None:
        if self._taken[org] < self._each:
            self._taken[org] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(org, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give(org)
            raise

    def _give(self, org: Hashable) -> None:
        queue = self._waiting.get(org)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(org, None)
        self._taken[org] -= 1
        if not self._taken[org]:
            del self._taken[org]


#: How long a request of an org that calls too often waits at the gate, in turns: a second in the
#: middle, and not all alike, lest they all come back at the same moment.
DELAYS: Final = tuple(0.5 + (7 * n % 32) / 31 for n in range(32))
#: With every so many of an org that wait, the next ones wait as much longer; up to so many times.
QUEUE_STEP: Final = 32
MAX_QUEUE_STEPS: Final = 10
#: Where programs ask for something that counts.
LIMITED_PATHS: Final = ("/mcp", "/api/")
#: Pages of an org that are made at the same time, and for how long one may be waited for: a page
#: costs the processor as much as many calls, and waits for nothing but the database.
MAX_CONCURRENT_PAGES: Final = 1
PAGE_WAIT_SECONDS: Final = 1.0
STATELESS_REVISIONS: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class RequestThrottle:
    entrance: ToolGateway
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    limiter: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    page_limiter: ConcurrencyLimiter = field(
        default_factory=partial(ConcurrencyLimiter, MAX_CONCURRENT_PAGES, PAGE_WAIT_SECONDS)
    )
    pauses: Iterator[float] = field(default_factory=partial(cycle, DELAYS))
    #: How many requests of each org wait here.
    held: Counter[UUID] = field(default_factory=Counter)

    async def admit(self, request: Request) -> UUID | None:
        """Count a request; if its org calls too often, let it wait: by then there may be room.

        The request remembers what came of it. Returns whose it is, if it is to be worked on.
        """
        try:
            dispatcher, caller = (
                await self.entrance.dispatcher(),
                await self.entrance.caller(request),
            )
        except WaybookError:
            return None  # whoever it is for says what stands in the way
        too_many = bool(dispatcher.try_acquire(caller))
        if too_many:
            await self._hold(caller.org_id)
            too_many = bool(dispatcher.try_acquire(caller))
        setattr(request.state, RATE_COUNTED, not too_many)
        return None if too_many else caller.org_id

    async def _hold(self, org_id: UUID) -> None:
        """Wait; the longer, the more of an org wait already."""
        self.held[org_id] += 1
        try:
            crowds = 1 + self.held[org_id] // QUEUE_STEP
            await self.pause(next(self.pauses) * min(crowds, MAX_QUEUE_STEPS))
        finally:
            self.held[org_id] -= 1
            if not self.held[org_id]:
                del self.held[org_id]

    async def rate_limited_response(self, request: Request, what: str = "") -> RateLimited | None:
        """What a request is told that was one too many."""
        if getattr(request.state, RATE_COUNTED, True):
            return None
        dispatcher, caller = await self.entrance.dispatcher(), await self.entrance.caller(request)
        return dispatcher.rate_limited_answer(caller, what)

    async def rate_limited_mcp_response(
        self, request: Request, message: Mapping[str, object]
    ) -> Response | None:
        """The refusal of a message of MCP that was one too many."""
        tool = tool_called(message)
        error = await self.rate_limited_response(request, tool or "")
        return (
            mcp_error_response(request, message, error, is_tool=tool is not None) if error else None
        )


def throttle_requests(pace: RequestThrottle, app: ASGIApp) -> ASGIApp:
    """Count those who call, and work on a few requests of each org at a time."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        org_id, places = None, pace.limiter
        if scope["type"] == "http" and scope["path"].startswith(LIMITED_PATHS):
            org_id = await pace.admit(Request(scope, receive))
        elif scope["type"] == "http":
            org_id, places = page_caller(Request(scope)), pace.page_limiter
        if org_id is None:
            await app(scope, receive, send)
            return
        async with places.slot(org_id) as give_up:

            async def answering(message: Message) -> None:
                if message["type"] == "http.response.start":
                    give_up()  # what goes on for long from here is news
                await send(message)

            await app(scope, receive, answering)

    return guarded


def page_caller(request: Request) -> UUID | None:
    """Whose page is asked for, if the gate has found that out."""
    caller = getattr(request.state, "caller", None)
    return caller.org_id if isinstance(caller, Caller) else None


def mcp_error_response(
    request: Request, message: Mapping[str, object], fault: RateLimited, *, is_tool: bool
) -> Response:
    """A refusal as the protocol library would send it: of a tool for a model to read."""
    body, headers = fault.as_json(), retry_after_header(fault.details)
    if "id" not in message:
        return json_response(body, 429, headers)
    answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if not is_tool:
        error = {"code": INTERNAL_ERROR, "message": fault.message, "data": body}
        return json_response({**answer, "error": error}, 429, headers)
    text = {"type": "text", "text": compact_json(body)}
    result: dict[str, object] = {"content": [text], "isError": True}
    if request.headers.get("mcp-protocol-version") in STATELESS_REVISIONS:
        result["resultType"] = "complete"
    return json_response({**answer, "result": result}, headers=headers)
