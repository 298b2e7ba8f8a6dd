"""The doorway's table of tools as it is published: `tools.json` beside this file is made of it."""

from collections.abc import Mapping
from typing import Final

import mcp_types as wire

from waybook.doorway import Tool
from waybook.transport.mcp.app.resource import URI
from waybook.transport.mcp.tools import Offered

# The two calls of each loop stay in sight of clients that hide tools behind a search.
ALWAYS_LOADED: Final = frozenset(
    {"get_next_step", "submit_step_result", "get_next_job", "submit_job_result"}
)
#: Whose answers hosts show with the map beside them, and what only the map may call.
SHOWN_ON_THE_MAP: Final = frozenset(
    {"get_plan_status", "request_user_review", "get_dag_map", "get_run_progress"}
)
FOR_THE_MAP: Final = frozenset({"draw_map"})


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
        output_schema=_output_schema(tool),
        annotations=_annotations(tool),
        _meta=_meta(tool.name) or None,
    )


def _output_schema(tool: Tool) -> dict[str, object]:
    """What a reply always has; `required` would say it again, at a price for every model."""
    left_out = {"required", "properties"} if tool.name in FOR_THE_MAP else {"required"}
    return {key: value for key, value in tool.output_schema.items() if key not in left_out}


def _meta(name: str) -> dict[str, object]:
    """What is told to hosts rather than to models."""
    if name in ALWAYS_LOADED:
        return {"anthropic/alwaysLoad": True}
    if name in SHOWN_ON_THE_MAP:
        return {"ui": {"resourceUri": URI}}
    return {"ui": {"visibility": ["app"]}} if name in FOR_THE_MAP else {}


def _annotations(tool: Tool) -> wire.ToolAnnotations:
    """The hints that mean something: whether it writes, and if so how.

    Idempotent is told where it is so; that it is not is what the protocol assumes.
    """
    if tool.reads_only:
        return wire.ToolAnnotations(read_only_hint=True)
    idempotent = True if tool.idempotent else None
    return wire.ToolAnnotations(destructive_hint=tool.destructive, idempotent_hint=idempotent)
