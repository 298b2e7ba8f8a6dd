"""What an open page is told: which topics changed, over one stream per browser.

An event has topics, or `*` when anything may have changed, and the position after it as its id.
Whoever comes back says where they were, and hears what they missed. The page fetches what it shows
of a topic by itself: over the stream go names, nothing of what they name.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.store.feed import Feed
from waybook.transport.listeners import Listeners
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.frame import HEADERS
from waybook.transport.web.gate import still_admitted
from waybook.transport.web.reading import status_of
from waybook.transport.web.replies import json_reply, retry_header
from waybook.usecases.exchange import Caller

#: A stream that is silent for so long says that it is still there.
BEAT_SECONDS: Final = 15.0
#: The least time between two events of a stream.
PAUSE_SECONDS: Final = 0.1
#: Streams at the same time, and of one org.
MOST_STREAMS: Final = 1_000
MOST_OF_ORG: Final = 250
LONGEST_POSITION: Final = 64
#: How long somebody may go on listening without being asked anew whether they may; with the
#: longest silence, less than half a minute.
ASK_AGAIN_SECONDS: Final = 10.0

STREAMED: Final = {
    **HEADERS,
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}


@dataclass(slots=True)
class Live:
    desk: Desk
    listeners: Listeners = field(default_factory=lambda: Listeners(MOST_STREAMS, MOST_OF_ORG))

    async def stream(self, request: Request) -> Response:
        """The changes of whoever asks, as they happen."""
        caller = await self.desk.caller(request)
        if full := self.listeners.fault(caller.org_id):
            return json_reply(full.as_json(), status_of(full.code), retry_header(full.details))
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        told = self._told(request, caller, since[:LONGEST_POSITION])
        return StreamingResponse(told, headers=STREAMED, media_type="text/event-stream")

    async def waiting(self, request: Request) -> Response:
        """How much waits for a person, as the frame of every page shows it."""
        await self.desk.call(request)
        return await self.desk.page(request, "waiting")

    async def _told(self, request: Request, caller: Caller, since: str) -> AsyncIterator[str]:
        feed, bus = Feed(), self.desk.doorway.house.bus
        asking = AskingAgain(request)
        if self.listeners.fault(caller.org_id):
            return  # others came first, since it was asked; whoever comes back is told so
        with self.listeners.one_more(caller.org_id), bus.told(caller.org_id, feed, since):
            yield _event(bus.position(caller.org_id), "hello", *feed.take())
            while not feed.has_ended:
                topics = await feed.read(BEAT_SECONDS)
                if not await asking.still():
                    return
                yield _event(bus.position(caller.org_id), *topics or ("beat",))
                await asyncio.sleep(PAUSE_SECONDS)


class AskingAgain:
    """Whether somebody who listens still may: asked now and then, not for every event."""

    def __init__(self, request: Request) -> None:
        """They may, as of now."""
        self._request = request
        self._asked = time.monotonic()

    async def still(self) -> bool:
        """Whether they may, as of a short while ago."""
        if time.monotonic() - self._asked < ASK_AGAIN_SECONDS:
            return True
        self._asked = time.monotonic()
        return await still_admitted(self._request)


def _event(position: str, *topics: str) -> str:
    return f"id: {position}\ndata: {' '.join(topics)}\n\n"
