"""Server-sent events that tell an open page what has changed.

An event contains only topics, such as `plan:ID` or `inbox`. The page then fetches the changed
content itself.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.app.dispatcher import Dispatcher
from waybook.app.request.caller import Caller
from waybook.store.driver.bus import ChangeFeed
from waybook.transport.gateway import StreamLimiter
from waybook.transport.http.authentication import reauthenticate
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.layout import PAGE_HEADERS
from waybook.transport.http.responses import answer_error_response

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


def live_endpoint(
    dispatcher: Dispatcher, authenticate: Callable[[Request], Awaitable[Caller]]
) -> Callable[[Request], Awaitable[Response]]:
    bus, streams = dispatcher.services.bus, StreamLimiter(MAX_STREAMS, MAX_STREAMS_PER_ORG)

    async def events(request: Request, org_id: UUID, since: str) -> AsyncIterator[str]:
        feed, checked_at = ChangeFeed(), time.monotonic()
        if streams.limit_error(org_id):
            # Too many streams are open, so end this one. The browser gets an error when it
            # reconnects.
            return
        with streams.acquire(org_id), bus.subscription(org_id, feed, since):
            yield _event(bus.position(org_id), "hello", *feed.take())
            while not feed.has_ended:
                topics = await feed.read(HEARTBEAT_SECONDS)
                if time.monotonic() - checked_at >= REAUTH_SECONDS:
                    checked_at = time.monotonic()
                    if not await reauthenticate(request):
                        return
                yield _event(bus.position(org_id), *topics or ("beat",))
                await asyncio.sleep(_MIN_EVENT_INTERVAL_SECONDS)

    async def stream(request: Request) -> Response:
        org_id = (await authenticate(request)).org_id
        if full := streams.limit_error(org_id):
            return answer_error_response(full.as_json())
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        sent = events(request, org_id, since[:_MAX_POSITION_LENGTH])
        return StreamingResponse(sent, headers=_STREAMED, media_type="text/event-stream")

    return stream


def _event(position: str, *topics: str) -> str:
    return f"id: {position}\ndata: {' '.join(topics)}\n\n"
