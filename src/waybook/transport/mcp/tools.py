"""The doorway's tool table as MCP shows it, and its answers as MCP carries them."""

from collections.abc import Mapping
from typing import Final

import mcp_types as wire

from waybook.doorway import Answer, Tool
from waybook.errors import Misconfigured
from waybook.transport.faults import compact

PROFILES: Final = ("plan", "research", "runs", "all")

# The two calls of each loop stay in sight of clients that hide tools behind a search.
ALWAYS_LOADED: Final = frozenset(
    {"get_next_step", "submit_step_result", "get_next_job", "submit_job_result"}
)


def offered_tools(tools: Mapping[str, Tool], profile: str) -> dict[str, Tool]:
    """The tools of a profile, in the order of the table.

    Raises:
        Misconfigured: there is no such profile.
    """
    if profile not in PROFILES:
        raise Misconfigured(f"There is no tool profile {profile!r}.", profiles=list(PROFILES))
    return {
        name: tool for name, tool in tools.items() if profile == "all" or profile in tool.profiles
    }


def described(tool: Tool) -> wire.Tool:
    """The tool as a client reads it in `tools/list`."""
    return wire.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_annotations(tool),
        _meta={"anthropic/alwaysLoad": True} if tool.name in ALWAYS_LOADED else None,
    )


def _annotations(tool: Tool) -> wire.ToolAnnotations:
    """The hints that mean something: whether it writes, and if so how."""
    if tool.reads_only:
        return wire.ToolAnnotations(read_only_hint=True)
    return wire.ToolAnnotations(destructive_hint=tool.destructive, idempotent_hint=tool.idempotent)


def result_of(answer: Answer) -> wire.CallToolResult:
    """The doorway's answer as a tool result.

    An error is one text block and nothing structured: it would not satisfy the output schema.
    """
    return wire.CallToolResult(
        content=[wire.TextContent(text=compact(answer.body))],
        structured_content=None if answer.is_error else answer.body,
        is_error=answer.is_error,
    )
