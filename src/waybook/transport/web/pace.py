"""The pace of whoever calls too often: slowed down before their body is read, refused cheaply.

A client that repeats its call as soon as it is refused would else cost as much as if it were
served. So its requests wait at the gate for a moment; what is still too much is then refused
without asking the protocol library.
"""

import asyncio
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
from waybook.transport.entrance import Entrance
from waybook.transport.faults import compact
from waybook.transport.web.jsonrpc import tool_called
from waybook.transport.web.places import Places
from waybook.transport.web.replies import json_reply, retry_header

#: How long a request of an org that calls too often waits at the gate, in turns: a second in the
#: middle, and not all alike, lest they all come back at the same moment.
PAUSES: Final = tuple(0.5 + (7 * n % 32) / 31 for n in range(32))
#: Where programs ask for something that counts.
COUNTED: Final = ("/mcp", "/api/")
MODERN: Final = frozenset(MODERN_PROTOCOL_VERSIONS)


@dataclass(frozen=True, slots=True)
class Pace:
    entrance: Entrance
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    places: Places = field(default_factory=Places)
    pauses: Iterator[float] = field(default_factory=partial(cycle, PAUSES))

    async def slow_down(self, request: Request) -> UUID | None:
        """Let a request wait if its org has called too often; by then there may be room.

        Returns whose it is, if that is known.
        """
        try:
            doorway, caller = await self.entrance.doorway(), await self.entrance.caller(request)
        except WaybookError:
            return None  # whoever it is for says what stands in the way
        if doorway.wait(caller):
            await self.pause(next(self.pauses))
        return caller.org_id

    async def admit(self, request: Request) -> None:
        """Count a request that does not enter by the doorway.

        Raises:
            RateLimited: there were too many.
        """
        doorway = await self.entrance.doorway()
        doorway.admit(await self.entrance.caller(request))

    async def turned_away(self, request: Request, message: Mapping[str, object]) -> Response | None:
        """The refusal of a message of MCP, if it is one too many.

        A tool's call is counted when it enters, anything else here.
        """
        tool = tool_called(message)
        try:
            doorway, caller = await self.entrance.doorway(), await self.entrance.caller(request)
            if tool is None:
                doorway.admit(caller)
            elif doorway.wait(caller):
                doorway.admit(caller, tool)
        except RateLimited as fault:
            await self.pause(next(self.pauses))  # many came for the one call that was left
            return refusal_of(request, message, fault, is_tool=tool is not None)
        except WaybookError:
            return None  # whoever it is for says what stands in the way
        return None


def at_a_pace(pace: Pace, app: ASGIApp) -> ASGIApp:
    """Slow down those who call too often, and work on a few requests of each org at a time."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        org_id = None
        if scope["type"] == "http" and scope["path"].startswith(COUNTED):
            org_id = await pace.slow_down(Request(scope, receive))
        if org_id is None:
            await app(scope, receive, send)
            return
        async with pace.places.of(org_id) as give_up:

            async def answering(message: Message) -> None:
                if message["type"] == "http.response.start":
                    give_up()  # what goes on for long from here is news
                await send(message)

            await app(scope, receive, answering)

    return guarded


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
