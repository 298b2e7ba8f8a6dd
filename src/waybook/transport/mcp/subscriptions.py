"""MCP notifications about changed resources.

New clients get them as a stream, over HTTP and stdio. Older clients subscribe to single resources,
over stdio only.
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
from mcp.server.subscriptions import (
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ServerEvent

from waybook.core.events import RUN, ChangeEvent
from waybook.store.driver.bus import Bus
from waybook.transport.errors import Context, invalid_params
from waybook.transport.gateway import StreamLimiter, ToolGateway
from waybook.transport.mcp.resources import KINDS
from waybook.transport.mcp.tools import require_tasks

#: Maximum numbers of streams, in total and per org, and of subscriptions.
MAX_STREAMS: Final = 500
MAX_STREAMS_PER_ORG: Final = 125
_MAX_RESOURCES: Final = 1_000
REAUTH_SECONDS: Final = 20.0

_LIVE: Final = tuple(kind for kind in KINDS if kind.argument in {"planId", "runId"})


def _events_of(event: ChangeEvent) -> list[ServerEvent]:
    """Return the MCP events for a change."""
    about = f"{event.kind}Id"
    changed: list[ServerEvent] = [
        ResourceUpdated(kind.uri.format(id=event.id)) for kind in _LIVE if kind.argument == about
    ]
    return [*changed, ResourcesListChanged()] if event.list_changed else changed


@dataclass(slots=True)
class _ListenStream:
    """Change stream of one client, with the interface that the MCP library expects."""

    bus: Bus
    org_id: UUID
    #: Whether to notify the client when the tools for runs are added to the list of tools.
    announces_tools: bool = False
    #: Ends the stream, so that the client reconnects and reads its resources again.
    close: Callable[[], None] = field(init=False)
    _deliver: Callable[[ServerEvent], None] = field(init=False)

    async def publish(self, _: ServerEvent) -> None:
        """Do nothing, because changes come from the application's own event bus."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._deliver = listener
        return self.bus.subscribe(self.org_id, self)

    def on_event(self, change: ChangeEvent) -> None:
        for event in _events_of(change):
            self._deliver(event)
        if self.announces_tools and change.kind == RUN and change.list_changed:
            self._deliver(ToolsListChanged())
            self.announces_tools = False

    def on_gap(self) -> None:
        """Close the stream, because events were lost and any resource may have changed."""
        self.close()

    def on_close(self) -> None:
        """Close the stream, because the event bus is shutting down."""
        self.close()


@dataclass(slots=True)
class ListenStreams:
    gateway: ToolGateway
    announce_tools: bool = False
    listeners: StreamLimiter = field(
        default_factory=lambda: StreamLimiter(MAX_STREAMS, MAX_STREAMS_PER_ORG)
    )

    async def listen(
        self, context: Context, params: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        """Send change notifications until the client cancels or the server stops."""
        if (params.notifications.model_extra or {}).get("taskIds"):
            require_tasks(context)
        bus, org_id = await self.gateway.event_bus(context.request)
        if full := self.listeners.limit_error(org_id):
            raise MCPError(wire.INTERNAL_ERROR, full.message, full.as_json())
        if bus.is_closed:
            raise MCPError(wire.INTERNAL_ERROR, "No more streams can be opened now")
        stream = _ListenStream(bus, org_id, self.announce_tools)
        handler = ListenHandler(stream)
        stream.close = handler.close
        checking = asyncio.create_task(self._reauthorize(context, stream))
        try:
            with self.listeners.acquire(org_id):
                return await handler(context, params)
        finally:
            checking.cancel()

    async def _reauthorize(self, context: Context, stream: _ListenStream) -> None:
        while True:
            await asyncio.sleep(REAUTH_SECONDS)
            if not await self.gateway.still_authorized(context.request):
                stream.close()
                return


@dataclass(slots=True)
class ResourceSubscriptions:
    gateway: ToolGateway
    _uris: set[str] = field(default_factory=set)
    _changed: dict[str, None] = field(default_factory=dict)
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: asyncio.Task[None] | None = None

    def serve(self, server: Server[None]) -> None:
        server.add_request_handler(
            "resources/subscribe", wire.SubscribeRequestParams, self.subscribe
        )
        server.add_request_handler(
            "resources/unsubscribe", wire.UnsubscribeRequestParams, self.unsubscribe
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.on_close()

    async def subscribe(
        self, context: Context, params: wire.SubscribeRequestParams
    ) -> wire.EmptyResult:
        if not any(kind.id_in(params.uri) for kind in _LIVE):
            raise invalid_params("There is nothing to subscribe to at this address", uri=params.uri)
        if len(self._uris) >= _MAX_RESOURCES:
            raise invalid_params(f"No more than {_MAX_RESOURCES} subscriptions at the same time")
        bus, org_id = await self.gateway.event_bus(context.request)
        self._uris.add(params.uri)
        if self._sending is None:
            bus.subscribe(org_id, self)
            self._sending = asyncio.create_task(self._send_changes(context.session))
        return wire.EmptyResult()

    async def unsubscribe(
        self, _: Context, params: wire.UnsubscribeRequestParams
    ) -> wire.EmptyResult:
        self._uris.discard(params.uri)
        return wire.EmptyResult()

    def on_event(self, change: ChangeEvent) -> None:
        for event in _events_of(change):
            if isinstance(event, ResourceUpdated) and event.uri in self._uris:
                self._changed[event.uri] = None
                self._has_news.set()

    def on_gap(self) -> None:
        """Queue a notification for every subscribed resource, because events were lost."""
        self._changed |= dict.fromkeys(self._uris)
        self._has_news.set()

    def on_close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_changes(self, session: ServerSession) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            changed, self._changed = self._changed, {}
            if not await self.gateway.still_authorized(None):
                return
            for uri in changed:
                await session.send_resource_updated(uri)
