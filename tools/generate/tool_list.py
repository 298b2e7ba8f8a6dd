"""Generator of `transport/mcp/tools.json`, the list of tools that Waybook publishes.

Waybook answers `tools/list` from this file without importing the tools.
"""

from collections.abc import Mapping
from typing import Final

import mcp_types as wire
import orjson

from waybook.app.request.tool import Tool
from waybook.transport.mcp.resources import APP_TOOLS, URI
from waybook.transport.mcp.tools import PublishedTool

#: Tools that claim and submit work. The list asks clients to load them at the start, even if they
#: load other tools on demand.
ALWAYS_LOADED: Final = frozenset(
    {"get_next_step", "submit_step_result", "get_next_job", "submit_job_result"}
)
#: Tools whose replies are shown in Waybook's map app by clients that can show apps.
SHOWN_ON_THE_MAP: Final = frozenset(
    {"get_plan_status", "request_user_review", "get_dag_map", "get_run_progress"}
)


def render(tools: Mapping[str, Tool]) -> str:
    entries = {
        name: {
            "profiles": sorted(offered.profiles),
            "tool": offered.listed.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for name, offered in list_tools(tools).items()
    }
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2).decode() + "\n"


def list_tools(tools: Mapping[str, Tool]) -> dict[str, PublishedTool]:
    """Return all tools as clients see them, in the order of the registry."""
    return {name: PublishedTool(describe(tool), tool.profiles) for name, tool in tools.items()}


def describe(tool: Tool) -> wire.Tool:
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
    """Return the output schema without `required`, which would cost tokens and not help a model."""
    omitted = {"required", "properties"} if tool.name in APP_TOOLS else {"required"}
    return {key: value for key, value in tool.output_schema.items() if key not in omitted}


def _meta(name: str) -> dict[str, object]:
    """Return the metadata of a tool for clients; models do not see it."""
    if name in ALWAYS_LOADED:
        return {"anthropic/alwaysLoad": True}
    if name in SHOWN_ON_THE_MAP:
        return {"ui": {"resourceUri": URI}}
    return {"ui": {"visibility": ["app"]}} if name in APP_TOOLS else {}


def _annotations(tool: Tool) -> wire.ToolAnnotations:
    """Return the four safety hints of the tool.

    All of them are set, because clients assume the most dangerous value for a missing hint.
    """
    return wire.ToolAnnotations(
        read_only_hint=tool.reads_only,
        destructive_hint=tool.destructive,
        idempotent_hint=tool.reads_only or tool.idempotent,
        open_world_hint=tool.open_world,
    )
