"""The doorway's table of tools as it is published: `tools.json` beside this file is made of it."""

from collections.abc import Mapping
from typing import Final

import mcp_types as wire

from waybook.doorway import Tool
from waybook.transport.mcp.tools import Offered

# The two calls of each loop stay in sight of clients that hide tools behind a search.
ALWAYS_LOADED: Final = frozenset(
    {"get_next_step", "submit_step_result", "get_next_job", "submit_job_result"}
)


def catalogue(tools: Mapping[str, Tool]) -> dict[str, Offered]:
    """Every tool as clients read it, in the order of the table."""
    return {name: Offered(described(tool), tool.profiles) for name, tool in tools.items()}


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
