"""Decides whether the tools for runs are listed in the profile `auto`.

They are listed once the org has a workflow. Over HTTP, each request for the list looks for one.
Over stdio, the list is answered before the database is up, so a notification tells the client when
the tools join.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from mcp.server.session import ServerSession

from waybook.core.events import RUN, ChangeEvent
from waybook.errors import WaybookError
from waybook.transport.errors import Context
from waybook.transport.gateway import ToolGateway

#: The tools of plans are listed alone if the database does not answer within this time.
_LOOKUP_SECONDS: Final = 2.0


@dataclass(slots=True)
class RunTools:
    gateway: ToolGateway
    #: Whether there is one client, on a persistent connection.
    persistent: bool
    _are_joined: bool = False
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _watch: asyncio.Task[None] | None = None

    async def are_listed(self, context: Context) -> bool:
        if self.persistent:
            self._watch = self._watch or asyncio.create_task(self._announce(context.session))
            return self._are_joined
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                return await self.gateway.has_workflows(context.request)
        except (WaybookError, TimeoutError):
            return False

    async def _announce(self, session: ServerSession) -> None:
        bus, org_id = await self.gateway.event_bus(None)
        unsubscribe = bus.subscribe(org_id, self)
        try:
            while not await self.gateway.has_workflows(None):
                await self._has_news.wait()
                self._has_news.clear()
        finally:
            unsubscribe()
        self._are_joined = True
        await session.send_tool_list_changed()

    def on_event(self, change: ChangeEvent) -> None:
        if change.kind == RUN:
            self._has_news.set()

    def on_gap(self) -> None:
        """Look again, because events were lost."""
        self._has_news.set()

    def on_close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
