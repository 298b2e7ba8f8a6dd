"""Resources that say when they changed.

In the revision of 2026-07-28 a client asks with `subscriptions/listen`, and the answer to that is
the stream, over HTTP and over stdio alike. Older revisions subscribe to one resource at a time,
and are told outside of any answer: over stdio there is a line for that; over HTTP, where nothing
is kept between requests, there is none, and it is not offered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import mcp_types as wire
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ServerEvent

from waybook.core.events import ChangeEvent
from waybook.store.driver.bus import Bus
from waybook.transport.errors import Context, invalid_params
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.resource_uris import KINDS
from waybook.transport.stream_limits import StreamLimiter

#: Streams at the same time, and of one org; and resources one client of an older revision may
#: subscribe to.
MAX_STREAMS: Final = 500
MAX_STREAMS_PER_ORG: Final = 125
MAX_RESOURCES: Final = 1_000
#: How often whoever listens is asked anew whether they may.
REAUTH_SECONDS: Final = 20.0

LIVE: Final = tuple(kind for kind in KINDS if kind.argument in {"planId", "runId"})


def events_of(event: ChangeEvent) -> list[ServerEvent]:
    """What a client is told: the resources that are otherwise now, and whether the list may be."""
    about = f"{event.kind}Id"
    changed: list[ServerEvent] = [
        ResourceUpdated(kind.uri.format(id=event.id)) for kind in LIVE if kind.argument == about
    ]
    return [*changed, ResourcesListChanged()] if event.list_changed else changed


@dataclass(slots=True)
class ListenStream:
    """One stream of one client: a bus as the protocol library wants it, of one org."""

    bus: Bus
    org_id: UUID
    #: Ends the stream; its client listens anew, and reads what it shows.
    close: Callable[[], None] = field(init=False)
    _deliver: Callable[[ServerEvent], None] = field(init=False)

    async def publish(self, _: ServerEvent) -> None:
        """Nothing is published here: changes come from the house's own bus."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Tell the library of this org's changes."""
        self._deliver = listener
        return self.bus.subscribe(self.org_id, self)

    def on_event(self, news: ChangeEvent) -> None:
        """Something changed."""
        for event in events_of(news):
            self._deliver(event)

    def on_gap(self) -> None:
        """Anything may have changed."""
        self.close()

    def on_close(self) -> None:
        """There will be no more."""
        self.close()


@dataclass(slots=True)
class ListenStreams:
    """`subscriptions/listen`: each call is a stream."""

    entrance: ToolGateway
    listeners: StreamLimiter = field(
        default_factory=lambda: StreamLimiter(MAX_STREAMS, MAX_STREAMS_PER_ORG)
    )

    async def listen(
        self, context: Context, params: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        """Tell of changes until the client has had enough, or the server stops."""
        bus, org_id = await self.entrance.event_bus(context.request)
        if full := self.listeners.limit_error(org_id):
            raise MCPError(wire.INTERNAL_ERROR, full.message, full.as_json())
        if bus.is_closed:
            raise MCPError(wire.INTERNAL_ERROR, "No more streams can be opened now")
        stream = ListenStream(bus, org_id)
        handler = ListenHandler(stream)
        stream.close = handler.close
        asking = asyncio.create_task(self._ask_again(context, stream))
        try:
            with self.listeners.acquire(org_id):
                return await handler(context, params)
        finally:
            asking.cancel()

    async def _ask_again(self, context: Context, stream: ListenStream) -> None:
        """End the stream of somebody whose credential counts no more."""
        while True:
            await asyncio.sleep(REAUTH_SECONDS)
            if not await self.entrance.still_authorized(context.request):
                stream.close()
                return


@dataclass(slots=True)
class ResourceSubscriptions:
    """`resources/subscribe`, for the one client at the other end of a line."""

    entrance: ToolGateway
    _uris: set[str] = field(default_factory=set)
    _changed: dict[str, None] = field(default_factory=dict)
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _telling: asyncio.Task[None] | None = None

    def serve(self, server: Server[None]) -> None:
        """Offer it."""
        server.add_request_handler(
            "resources/subscribe", wire.SubscribeRequestParams, self.subscribe
        )
        server.add_request_handler(
            "resources/unsubscribe", wire.UnsubscribeRequestParams, self.unsubscribe
        )

    @asynccontextmanager
    async def lifespan(self, _: Server[None]) -> AsyncIterator[None]:
        """Tell as long as there is somebody to be told."""
        try:
            yield
        finally:
            self.on_close()

    async def subscribe(
        self, context: Context, params: wire.SubscribeRequestParams
    ) -> wire.EmptyResult:
        """Tell of changes of a resource from now on."""
        if not any(kind.id_in(params.uri) for kind in LIVE):
            raise invalid_params("There is nothing to subscribe to at this address", uri=params.uri)
        if len(self._uris) >= MAX_RESOURCES:
            raise invalid_params(f"No more than {MAX_RESOURCES} subscriptions at the same time")
        bus, org_id = await self.entrance.event_bus(context.request)
        self._uris.add(params.uri)
        if self._telling is None:
            bus.subscribe(org_id, self)
            self._telling = asyncio.create_task(self._tell(context.session))
        return wire.EmptyResult()

    async def unsubscribe(
        self, _: Context, params: wire.UnsubscribeRequestParams
    ) -> wire.EmptyResult:
        """Tell no more of it."""
        self._uris.discard(params.uri)
        return wire.EmptyResult()

    def on_event(self, news: ChangeEvent) -> None:
        """Something changed."""
        for event in events_of(news):
            if isinstance(event, ResourceUpdated) and event.uri in self._uris:
                self._changed[event.uri] = None
                self._has_news.set()

    def on_gap(self) -> None:
        """Anything may have changed."""
        self._changed |= dict.fromkeys(self._uris)
        self._has_news.set()

    def on_close(self) -> None:
        """There will be no more."""
        if self._telling is not None:
            self._telling.cancel()

    async def _tell(self, session: ServerSession) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            changed, self._changed = self._changed, {}
            if not await self.entrance.still_authorized(None):
                return
            for uri in changed:
                await session.send_resource_updated(uri)
