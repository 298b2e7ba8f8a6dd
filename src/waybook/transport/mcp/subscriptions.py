"""MCP notifications about changed resources.

New clients get them as a stream, over HTTP and stdio. Older clients subscribe to single resources,
over stdio only.
"""

import asyncio
from collections.abc import Callable
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
from waybook.store.driver.bus import ALL_TOPICS, Bus, ChangeFeed
from waybook.transport.gateway import StreamLimiter, ToolGateway
from waybook.transport.jsonrpc import Context, invalid_params
from waybook.transport.mcp.resources import KINDS
from waybook.transport.mcp.tools import require_tasks

#: Maximum number of streams in total, of streams per org, and of subscriptions.
MAX_STREAMS: Final = 500
MAX_STREAMS_PER_ORG: Final = 125
_MAX_RESOURCES: Final = 1_000
REAUTH_SECONDS: Final = 20.0

_LIVE: Final = tuple(kind for kind in KINDS if kind.argument in {"planId", "runId"})


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
        for kind in _LIVE:
            if kind.argument == f"{change.kind}Id":
                self._deliver(ResourceUpdated(kind.uri.format(id=change.id)))
        if change.list_changed:
            self._deliver(ResourcesListChanged())
            if self.announces_tools and change.kind == RUN:
                self._deliver(ToolsListChanged())
                self.announces_tools = False

    def on_gap(self) -> None:
        # Events were lost, so any resource may have changed.
        self.close()

    def on_close(self) -> None:
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

        async def reauthorize() -> None:
            while True:
                await asyncio.sleep(REAUTH_SECONDS)
                if not await self.gateway.still_authorized(context.request):
                    stream.close()
                    return

        checking = asyncio.create_task(reauthorize())
        try:
            with self.listeners.acquire(org_id):
                return await handler(context, params)
        finally:
            checking.cancel()


@dataclass(slots=True)
class ResourceSubscriptions:
    gateway: ToolGateway
    #: Subscribed resources, each with the topic of its changes.
    _topics: dict[str, str] = field(default_factory=dict)
    _sending: asyncio.Task[None] | None = None

    def serve(self, server: Server[None]) -> None:
        add = server.add_request_handler
        add("resources/subscribe", wire.SubscribeRequestParams, self.subscribe)
        add("resources/unsubscribe", wire.UnsubscribeRequestParams, self.unsubscribe)

    def on_close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def subscribe(
        self, context: Context, params: wire.SubscribeRequestParams
    ) -> wire.EmptyResult:
        topics = [
            f"{kind.argument.removesuffix('Id')}:{resource_id}"
            for kind in _LIVE
            if (resource_id := kind.id_in(params.uri))
        ]
        if not topics:
            raise invalid_params("There is nothing to subscribe to at this address", uri=params.uri)
        if len(self._topics) >= _MAX_RESOURCES:
            raise invalid_params(f"No more than {_MAX_RESOURCES} subscriptions at the same time")
        bus, org_id = await self.gateway.event_bus(context.request)
        self._topics[params.uri] = topics[0]
        if self._sending is None:
            feed = ChangeFeed()
            bus.subscribe(org_id, feed)
            self._sending = asyncio.create_task(self._send_changes(context.session, feed))
        return wire.EmptyResult()

    async def unsubscribe(
        self, _: Context, params: wire.UnsubscribeRequestParams
    ) -> wire.EmptyResult:
        self._topics.pop(params.uri, None)
        return wire.EmptyResult()

    async def _send_changes(self, session: ServerSession, feed: ChangeFeed) -> None:
        while not feed.has_ended:
            changed = await feed.read(REAUTH_SECONDS)
            if changed and not await self.gateway.still_authorized(None):
                return
            for uri, topic in list(self._topics.items()):
                # After events were lost, any resource may have changed.
                if topic in changed or ALL_TOPICS in changed:
                    await session.send_resource_updated(uri)
