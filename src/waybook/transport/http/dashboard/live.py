"""Server-sent events that tell an open page what has changed.

An event contains only topics, such as `plan:ID` or `inbox`. The page then fetches the changed
content itself.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.app.dispatcher import Dispatcher
from waybook.app.request.caller import Caller
from waybook.store.driver.bus import ChangeFeed
from waybook.transport.gateway import StreamLimiter
from waybook.transport.http.authentication import reauthenticate
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.layout import PAGE_HEADERS
from waybook.transport.http.responses import http_status, json_response, retry_after_header

HEARTBEAT_SECONDS: Final = 15.0
_MIN_EVENT_INTERVAL_SECONDS: Final = 0.1
MAX_STREAMS: Final = 1_000
MAX_STREAMS_PER_ORG: Final = 250
_MAX_POSITION_LENGTH: Final = 64
#: Seconds after which the credential of an open stream is checked again.
REAUTH_SECONDS: Final = 10.0

_STREAMED: Final = {
    **PAGE_HEADERS,
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}


async def pending_count(page: PageRequest) -> Response:
    return await page.render("waiting")


@dataclass(frozen=True, slots=True)
class LiveUpdates:
    dispatcher: Dispatcher
    authenticate: Callable[[Request], Awaitable[Caller]]
    listeners: StreamLimiter = field(
        default_factory=lambda: StreamLimiter(MAX_STREAMS, MAX_STREAMS_PER_ORG)
    )

    async def stream(self, request: Request) -> Response:
        caller = await self.authenticate(request)
        if full := self.listeners.limit_error(caller.org_id):
            return json_response(
                full.as_json(), http_status(full.code), retry_after_header(full.details)
            )
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        events = self._stream_events(request, caller, since[:_MAX_POSITION_LENGTH])
        return StreamingResponse(events, headers=_STREAMED, media_type="text/event-stream")

    async def _stream_events(
        self, request: Request, caller: Caller, since: str
    ) -> AsyncIterator[str]:
        feed, bus = ChangeFeed(), self.dispatcher.services.bus
        checked_at = time.monotonic()
        if self.listeners.limit_error(caller.org_id):
            # Too many streams are open, so end this one. The browser gets an error when it
            # reconnects.
            return
        with self.listeners.acquire(caller.org_id), bus.subscription(caller.org_id, feed, since):
            yield _event(bus.position(caller.org_id), "hello", *feed.take())
            while not feed.has_ended:
                topics = await feed.read(HEARTBEAT_SECONDS)
                if time.monotonic() - checked_at >= REAUTH_SECONDS:
                    checked_at = time.monotonic()
                    if not await reauthenticate(request):
                        return
                yield _event(bus.position(caller.org_id), *topics or ("beat",))
                await asyncio.sleep(_MIN_EVENT_INTERVAL_SECONDS)


def _event(position: str, *topics: str) -> str:
    return f"id: {position}\ndata: {' '.join(topics)}\n\n"
