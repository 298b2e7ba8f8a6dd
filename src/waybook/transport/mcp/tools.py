"""MCP tool list, and tool results.

The list is read from `tools.json`, so that clients get it before the tools are imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import mcp_types as wire
import orjson

from waybook.app.request.caller import Answer
from waybook.errors import Misconfigured
from waybook.transport.jsonrpc import compact_json

#: `auto` has the tools of `research`, and those of `runs` too once the org has a workflow.
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
    having = [other for other in PROFILES if tools[name].is_in(other)]
    return (
        f"Unknown tool: {name} is not in the tool profile {profile} of this server; "
        f"profiles that include it: {', '.join(having)}"
    )


def to_tool_result(answer: Answer) -> wire.CallToolResult:
    """Convert a dispatcher's answer to an MCP tool result."""
    return wire.CallToolResult(
        content=[wire.TextContent(text=compact_json(answer.body))],
        structured_content=None if answer.is_error else answer.body,
        is_error=answer.is_error,
    )
