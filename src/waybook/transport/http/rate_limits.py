"""Request throttling: delays for orgs over the rate limit, and a concurrency limit per org.

Only a few requests of each org are processed at a time, so that one org cannot slow down the
others. A request over the rate limit is delayed before it is refused, so that clients that retry
use little CPU time.
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

from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import RateLimited, WaybookError
from waybook.transport.gateway import RATE_COUNTED, DispatcherPort, ToolGateway, request_state
from waybook.transport.http.headers import declared_size
from waybook.transport.http.responses import http_status, json_response, retry_after_header
from waybook.transport.jsonrpc import compact_json, tool_called

MAX_CONCURRENT: Final = 4
_WAIT_TIMEOUT_SECONDS: Final = 0.5


class ConcurrencyLimiter:
    def __init__(self, each: int = MAX_CONCURRENT, patience: float = _WAIT_TIMEOUT_SECONDS) -> None:
        """Give each org `each` slots. A request keeps its slot for at most `patience` seconds."""
        self._each = each
        self._patience = patience
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, org: Hashable) -> AsyncIterator[Callable[[], None]]:
        """Wait for a free slot. Yield a function that releases the slot early."""
        await self._take(org)
        released = False

        def give() -> None:
            nonlocal released
            if not released:
                released = True
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


#: Delays of requests over the rate limit. They differ, so that clients do not all retry at the same
#: time.
DELAYS: Final = tuple(0.5 + (7 * n % 32) / 31 for n in range(32))
#: The delay grows with every `QUEUE_STEP` delayed requests of the org.
QUEUE_STEP: Final = 32
MAX_QUEUE_STEPS: Final = 10
LIMITED_PATHS: Final = ("/mcp", "/api/")
#: Only one page of an org is rendered at a time, because a page takes the CPU time of many calls.
MAX_CONCURRENT_PAGES: Final = 1
_PAGE_WAIT_SECONDS: Final = 1.0
#: Every 4 KiB of a body count as one more call.
BODY_BYTES_PER_CALL: Final = 4 * 1024
#: Everyone who is not signed in shares this caller, and so one rate limit.
ANONYMOUS: Final = Caller(org_id=UUID(int=0), user="", channel=Channel.DASHBOARD)
#: Health checks and metrics are never delayed. Static files are not counted, because the pages of
#: signed-in people need them too.
_UNLIMITED_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_UNCOUNTED_PREFIX: Final = "/static/"
_STATELESS_REVISIONS: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class RequestThrottle:
    gateway: ToolGateway
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    limiter: ConcurrencyLimiter = field(default_factory=ConcurrencyLimiter)
    page_limiter: ConcurrencyLimiter = field(
        default_factory=partial(ConcurrencyLimiter, MAX_CONCURRENT_PAGES, _PAGE_WAIT_SECONDS)
    )
    pauses: Iterator[float] = field(default_factory=partial(cycle, DELAYS))
    held: Counter[UUID] = field(default_factory=Counter)

    async def admit(self, request: Request, size: int | None = None) -> UUID | None:
        """Count a request. If its org is over the limit, delay the request and try once more.

        Return the org if the request may proceed. `size` is the size of the body in bytes.
        """
        try:
            dispatcher, caller = (
                await self.gateway.dispatcher(),
                await self.gateway.caller(request),
            )
        except WaybookError:
            return None
        is_admitted = await self._count(dispatcher, caller, _more_calls(request, size))
        setattr(request.state, RATE_COUNTED, is_admitted)
        return caller.org_id if is_admitted else None

    async def _count(self, dispatcher: DispatcherPort, caller: Caller, more_calls: int = 0) -> bool:
        """Count a request as one call and `more_calls`. Return whether it is within the limit."""
        if dispatcher.try_acquire(caller):
            await self._hold(caller.org_id)
            if dispatcher.try_acquire(caller):
                return False
        dispatcher.charge(caller, more_calls)
        return True

    async def anonymous_refusal(self, request: Request) -> Response | None:
        """Count a request of someone who is not signed in.

        Return a refusal if there are too many.
        """
        path = request.scope["path"]
        if path in _UNLIMITED_PATHS or path.startswith(_UNCOUNTED_PREFIX):
            return None
        if await self._count(await self.gateway.dispatcher(), ANONYMOUS):
            return None
        error = RateLimited("too many requests without sign-in")
        return json_response(error.as_json(), 429, retry_after_header(error.details))

    async def slot_of(self, request: Request) -> tuple[UUID | None, ConcurrencyLimiter]:
        """Return the org that a request counts for, and the limiter.

        Without an org, it need not wait.
        """
        path, caller = request.scope["path"], signed_in_caller(request)
        if path.startswith(LIMITED_PATHS):
            return await self.admit(request), self.limiter
        if caller is not None:
            (await self.gateway.dispatcher()).charge(caller, _more_calls(request))
        org_id = (caller or ANONYMOUS).org_id
        return None if path in _UNLIMITED_PATHS else org_id, self.page_limiter

    async def _hold(self, org_id: UUID) -> None:
        """Delay a request. The delay is longer if many requests of the org are delayed."""
        self.held[org_id] += 1
        try:
            crowds = 1 + self.held[org_id] // QUEUE_STEP
            await self.pause(next(self.pauses) * min(crowds, MAX_QUEUE_STEPS))
        finally:
            self.held[org_id] -= 1
            if not self.held[org_id]:
                del self.held[org_id]

    async def rate_limited_response(self, request: Request, what: str = "") -> RateLimited | None:
        if request_state(request).get(RATE_COUNTED, True):
            return None
        dispatcher, caller = await self.gateway.dispatcher(), await self.gateway.caller(request)
        return dispatcher.rate_limited_answer(caller, what)

    async def rate_limited_mcp_response(
        self, request: Request, message: Mapping[str, object]
    ) -> Response | None:
        error = await self.rate_limited_response(request, tool_called(message) or "")
        return mcp_error_response(request, message, error) if error else None


def _more_calls(request: Request, size: int | None = None) -> int:
    if size is None:
        size = declared_size(request.scope["headers"]) or 0
    return size // BODY_BYTES_PER_CALL


def signed_in_caller(request: Request) -> Caller | None:
    caller = request_state(request).get("caller")
    return caller if isinstance(caller, Caller) else None


def mcp_error_response(
    request: Request, message: Mapping[str, object], fault: WaybookError
) -> Response:
    body, headers = fault.as_json(), retry_after_header(fault.details)
    status = http_status(fault.code)
    if "id" not in message:
        return json_response(body, status, headers)
    answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if tool_called(message) is None:
        error = {"code": INTERNAL_ERROR, "message": fault.message, "data": body}
        return json_response({**answer, "error": error}, status, headers)
    text = {"type": "text", "text": compact_json(body)}
    result: dict[str, object] = {"content": [text], "isError": True}
    if request.headers.get("mcp-protocol-version") in _STATELESS_REVISIONS:
        result["resultType"] = "complete"
    return json_response({**answer, "result": result}, headers=headers)
