"""The pace of whoever calls too often: slowed down before their body is read, refused cheaply.

A client that repeats its call as soon as it is refused would else cost as much as if it were
served. So its requests wait at the gate for a moment; what is still too much is then refused
without asking the protocol library.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
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

from waybook.errors import RateLimited, WaybookError
from waybook.transport.entrance import COUNTED, Entrance
from waybook.transport.faults import compact
from waybook.transport.jsonrpc import tool_called
from waybook.transport.web.places import Places
from waybook.transport.web.replies import json_reply, retry_header
from waybook.usecases.exchange import Caller

#: How long a request of an org that calls too often waits at the gate, in turns: a second in the
#: middle, and not all alike, lest they all come back at the same moment.
PAUSES: Final = tuple(0.5 + (7 * n % 32) / 31 for n in range(32))
#: With every so many of an org that wait, the next ones wait as much longer; up to so many times.
CROWD: Final = 32
MOST_CROWDS: Final = 10
#: Where programs ask for something that counts.
PATHS: Final = ("/mcp", "/api/")
#: Pages of an org that are made at the same time, and for how long one may be waited for: a page
#: costs the processor as much as many calls, and waits for nothing but the database.
PAGES_AT_ONCE: Final = 1
PAGE_SECONDS: Final = 1.0
MODERN: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class Pace:
    entrance: Entrance
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    places: Places = field(default_factory=Places)
    pages: Places = field(default_factory=partial(Places, PAGES_AT_ONCE, PAGE_SECONDS))
    pauses: Iterator[float] = field(default_factory=partial(cycle, PAUSES))
    #: How many requests of each org wait here.
    held: Counter[UUID] = field(default_factory=Counter)

    async def counted(self, request: Request) -> UUID | None:
        """Count a request; if its org calls too often, let it wait: by then there may be room.

        The request remembers what came of it. Returns whose it is, if it is to be worked on.
        """
        try:
            doorway, caller = await self.entrance.doorway(), await self.entrance.caller(request)
        except WaybookError:
            return None  # whoever it is for says what stands in the way
        too_many = bool(doorway.count(caller))
        if too_many:
            await self._hold(caller.org_id)
            too_many = bool(doorway.count(caller))
        setattr(request.state, COUNTED, not too_many)
        return None if too_many else caller.org_id

    async def _hold(self, org_id: UUID) -> None:
        """Wait; the longer, the more of an org wait already."""
        self.held[org_id] += 1
        try:
            crowds = 1 + self.held[org_id] // CROWD
            await self.pause(next(self.pauses) * min(crowds, MOST_CROWDS))
        finally:
            self.held[org_id] -= 1
            if not self.held[org_id]:
                del self.held[org_id]

    async def refused(self, request: Request, what: str = "") -> RateLimited | None:
        """What a request is told that was one too many."""
        if getattr(request.state, COUNTED, True):
            return None
        doorway, caller = await self.entrance.doorway(), await self.entrance.caller(request)
        return doorway.turned_away(caller, what)

    async def turned_away(self, request: Request, message: Mapping[str, object]) -> Response | None:
        """The refusal of a message of MCP that was one too many."""
        tool = tool_called(message)
        fault = await self.refused(request, tool or "")
        return refusal_of(request, message, fault, is_tool=tool is not None) if fault else None


def at_a_pace(pace: Pace, app: ASGIApp) -> ASGIApp:
    """Count those who call, and work on a few requests of each org at a time."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        org_id, places = None, pace.places
        if scope["type"] == "http" and scope["path"].startswith(PATHS):
            org_id = await pace.counted(Request(scope, receive))
        elif scope["type"] == "http":
            org_id, places = looking(Request(scope)), pace.pages
        if org_id is None:
            await app(scope, receive, send)
            return
        async with places.of(org_id) as give_up:

            async def answering(message: Message) -> None:
                if message["type"] == "http.response.start":
                    give_up()  # what goes on for long from here is news
                await send(message)

            await app(scope, receive, answering)

    return guarded


def looking(request: Request) -> UUID | None:
    """Whose page is asked for, if the gate has found that out."""
    caller = getattr(request.state, "caller", None)
    return caller.org_id if isinstance(caller, Caller) else None


def refusal_of(
    request: Request, message: Mapping[str, object], fault: RateLimited, *, is_tool: bool
) -> Response:
    """A refusal as the protocol library would send it: of a tool for a model to read."""
    body, headers = fault.as_json(), retry_header(fault.details)
    if "id" not in message:
        return json_reply(body, 429, headers)
    answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if not is_tool:
        error = {"code": INTERNAL_ERROR, "message": fault.message, "data": body}
        return json_reply({**answer, "error": error}, 429, headers)
    text = {"type": "text", "text": compact(body)}
    result: dict[str, object] = {"content": [text], "isError": True}
    if request.headers.get("mcp-protocol-version") in MODERN:
        result["resultType"] = "complete"
    return json_reply({**answer, "result": result}, headers=headers)
