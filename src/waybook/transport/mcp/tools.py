"""MCP tool list, tool results, and what a client declares about itself.

The list is read from `tools.json`, so that clients get it before the tools are imported.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import mcp_types as wire
import orjson
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from waybook.app.request.caller import Answer
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import Misconfigured, WaybookError
from waybook.redaction import redact
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import Context, compact_json

#: `auto` has the tools of `research` and, once the org has a workflow, also the tools of `runs`.
PROFILES: Final = ("auto", "research", "runs", "all")
FILE: Final = "tools.json"


@dataclass(frozen=True, slots=True)
class PublishedTool:
    """A tool as MCP clients see it, and the profiles (sets of tools) that include it."""

    listed: wire.Tool
    profiles: frozenset[str]

    def is_in(self, profile: str) -> bool:
        parts = {"research", "runs"} if profile == "auto" else {profile}
        return profile == "all" or not parts.isdisjoint(self.profiles)


def published_tools() -> dict[str, PublishedTool]:
    text = files("waybook.transport.mcp").joinpath(FILE).read_bytes()
    return {
        name: PublishedTool(wire.Tool.model_validate(entry["tool"]), frozenset(entry["profiles"]))
        for name, entry in orjson.loads(text).items()
    }


def tools_in_profile(tools: Mapping[str, PublishedTool], profile: str) -> list[wire.Tool]:
    if profile not in PROFILES:
        raise Misconfigured(f"There is no tool profile {profile!r}.", profiles=list(PROFILES))
    return [tool.listed for tool in tools.values() if tool.is_in(profile)]


def unknown_tool(tools: Mapping[str, PublishedTool], name: str, profile: str) -> str:
    if name not in tools:
        return f"Unknown tool: {name}"
    profiles = [other for other in PROFILES if tools[name].is_in(other)]
    return (
        f"Unknown tool: {name} is not in the tool profile {profile} of this server; "
        f"profiles that include it: {', '.join(profiles)}"
    )


def to_tool_result(answer: Answer) -> wire.CallToolResult:
    return wire.CallToolResult(
        content=[wire.TextContent(text=compact_json(answer.body))],
        structured_content=None if answer.is_error else answer.body,
        is_error=answer.is_error,
    )


#: Seconds to wait for the database. After that, only the tools for plans are listed.
_LOOKUP_SECONDS: Final = 2.0


@dataclass(slots=True)
class RunTools:
    """Decides whether the tools for runs are listed in the profile `auto`.

    They are listed once the org has a workflow. Over HTTP, each request for the list checks whether
    the org has a workflow. Over stdio, the list is answered before the database is up, so a
    notification tells the client when the tools are added.
    """

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
        """Check again whether the org has a workflow, because events were lost."""
        self._has_news.set()

    def on_close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()


#: Clients choose their names, so the length is limited.
MAX_CLIENT_LENGTH: Final = 80


def client_name(context: Context) -> str | None:
    params = context.session.client_params
    if params is not None:
        return clean_name(params.client_info.name)
    agent = context.request.headers.get("user-agent", "") if context.request else ""
    return clean_name(product_of(agent))


def product_of(user_agent: str) -> str:
    """Return the first product name in a User-Agent header, without its version.

    >>> product_of("claude-code/2.1.3 (cli)"), product_of("node"), product_of("")
    ('claude-code', 'node', '')
    """
    return user_agent.partition("/")[0].partition("(")[0]


def clean_name(name: str) -> str | None:
    r"""Return a name on one line, cut and with secrets masked, or None if nothing is left.

    >>> clean_name(" Cursor\n"), clean_name("\0")
    ('Cursor', None)
    """
    printable = "".join(character if character.isprintable() else " " for character in name)
    return redact(" ".join(printable.split()))[:MAX_CLIENT_LENGTH] or None


TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


def extensions_of(context: Context) -> Mapping[str, object]:
    """Return the extensions of the protocol that the client declares."""
    capabilities = context.session.client_capabilities
    return (capabilities and capabilities.extensions) or {}


def declares_tasks(context: Context) -> bool:
    is_modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and TASKS_EXTENSION in extensions_of(context)


def require_tasks(context: Context) -> None:
    if not declares_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        message = f"This request needs a client that declares the extension {TASKS_EXTENSION}"
        raise MCPError(wire.MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)
