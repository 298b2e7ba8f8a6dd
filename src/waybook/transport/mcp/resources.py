"""Plans, runs and research as MCP resources, and the interactive map app.

A host that supports MCP apps shows `map.html` next to the results of certain tools.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import mcp_types as wire

from waybook.app.request.caller import Answer, ReadableDocument
from waybook.core.hidden_characters import FLAG, count_hidden
from waybook.errors import WaybookError
from waybook.transport.errors import Context, code_of, error_from_answer, invalid_params
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import APPS_EXTENSION, APPS_SESSION, compact_json
from waybook.transport.mcp.resource_uris import (
    JSON,
    KINDS,
    MARKDOWN,
    OUTPUT,
    PLAN,
    RUN_PROGRESS,
    WORKFLOW_SCHEMA,
    ResourceKind,
)
from waybook.transport.mcp.skills import SCHEME, Skills


@dataclass(frozen=True, slots=True)
class OpenItem:
    id: str
    name: str
    status_text: str


@dataclass(frozen=True, slots=True)
class _Page:
    plans: tuple[OpenItem, ...]
    next_cursor: str | None


async def open_plans(gateway: ToolGateway, context: Context, cursor: str | None = None) -> _Page:
    arguments = {"cursor": cursor} if cursor is not None else {}
    answer = await gateway.call_tool(context.request, "list_active_plans", arguments)
    if answer.is_error:
        raise error_from_answer(answer, "The active plans cannot be listed")
    plans, next_cursor = answer.body.get("plans"), answer.body.get("nextCursor")
    return _Page(
        plans=tuple(map(_active_plan, plans)) if isinstance(plans, list) else (),
        next_cursor=next_cursor if isinstance(next_cursor, str) else None,
    )


async def open_runs(gateway: ToolGateway, context: Context) -> tuple[OpenItem, ...]:
    answer = await gateway.call_tool(context.request, "list_dags", {})
    if answer.is_error:
        raise error_from_answer(answer, "The open runs cannot be listed")
    runs = answer.body.get("openRuns")
    return tuple(map(_open_run, runs)) if isinstance(runs, list) else ()


def _active_plan(item: Mapping[str, object]) -> OpenItem:
    return OpenItem(
        id=str(item["planId"]),
        name=str(item["name"]),
        status_text=f"{item['status']}, {item['progress']} % done",
    )


def _open_run(item: Mapping[str, object]) -> OpenItem:
    waiting, current = item["awaitingFeedback"], item["currentStage"]
    where = f"{waiting} awaits feedback" if waiting else f"{current} in progress"
    standing = f"{item['dagSlug']}, {where}, {item['completedSteps']} steps done"
    return OpenItem(id=str(item["runId"]), name=str(item["name"]), status_text=standing)


URI: Final = "ui://waybook/map"
MIME_TYPE: Final = "text/html;profile=mcp-app"
#: Only the map app calls these tools. Other clients do not get them, because tool descriptions cost
#: tokens.
APP_TOOLS: Final = frozenset({"draw_map"})
_STYLE_PLACEHOLDER: Final = "/* map.css */"


def shows_apps(context: Context) -> bool:
    """Return whether the client shows MCP apps."""
    if context.request and context.request.headers.get("mcp-session-id") == APPS_SESSION:
        return True
    capabilities = context.session.client_capabilities
    return APPS_EXTENSION in ((capabilities and capabilities.extensions) or {})


def _read_app() -> wire.ReadResourceResult:
    contents = wire.TextResourceContents(
        uri=URI, mime_type=MIME_TYPE, text=page(), _meta={"ui": {"prefersBorder": True}}
    )
    result = wire.ReadResourceResult(contents=[contents])
    return result.model_copy(update={"ttl_ms": 300_000, "cache_scope": "public"})


@cache
def page() -> str:
    html = files("waybook.transport.mcp").joinpath("map.html").read_text("utf-8")
    style = files("waybook.dag.diagram").joinpath("map.css").read_text("utf-8")
    before, _, rest = html.partition("<style>")
    own_style, _, after = rest.partition("</style>")
    styles = "".join(_lean(own_style.replace(_STYLE_PLACEHOLDER, style)))
    return "\n".join(_lean(f"{before}<style>{styles}</style>{after}")) + "\n"


def _lean(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(("//", "/*")):
            yield stripped


class Text(NamedTuple):
    mime_type: str
    text: str
    meta: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """MCP resources of the caller's org."""

    gateway: ToolGateway
    runs: bool
    #: Skills whose files are also resources. Empty if the offered tools cannot start skills.
    skills: Skills | None = None

    @property
    def kinds(self) -> tuple[ResourceKind, ...]:
        return tuple(kind for kind in KINDS if self.runs or not kind.of_runs)

    async def templates(self, _: Context, __: object) -> wire.ListResourceTemplatesResult:
        templates = [kind.template() for kind in self.kinds]
        return wire.ListResourceTemplatesResult(resource_templates=templates)

    async def list(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        cursor = params.cursor if params else None
        page = await open_plans(self.gateway, context, cursor)
        runs = await open_runs(self.gateway, context) if self.runs and cursor is None else ()
        resources = [_to_resource(RUN_PROGRESS, run) for run in runs]
        resources += [_to_resource(PLAN, plan) for plan in page.plans]
        if self.runs and cursor is None:
            resources.append(WORKFLOW_SCHEMA)
        if self.skills is not None and page.next_cursor is None:
            resources += await self.skills.listed()
        return wire.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)

    async def read(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        if params.uri == URI:
            return _read_app()
        if params.uri == WORKFLOW_SCHEMA.uri and self.runs:
            return _read_schema()
        if self.skills is not None and params.uri.startswith(SCHEME):
            return await self.skills.read(params.uri)
        for kind in self.kinds:
            resource_id = kind.id_in(params.uri)
            if resource_id is not None:
                mime_type, text, meta = await self._text(context, params.uri, kind, resource_id)
                contents = wire.TextResourceContents(
                    uri=params.uri, mime_type=mime_type, text=text, _meta=meta
                )
                return wire.ReadResourceResult(contents=[contents])
        raise invalid_params("Resource not found", uri=params.uri)

    async def _text(self, context: Context, uri: str, kind: ResourceKind, resource_id: str) -> Text:
        answer = await self._answer(context, kind, resource_id)
        if isinstance(answer, Text):
            return answer
        if code_of(answer) in {"NOT_FOUND", "INVALID_INPUT"}:
            raise invalid_params("Resource not found", uri=uri)
        if answer.is_error:
            raise error_from_answer(answer, f"The {kind.title.lower()} cannot be read now")
        return Text(kind.mime_type, compact_json(answer.body))

    async def _answer(
        self, context: Context, kind: ResourceKind, resource_id: str
    ) -> Answer | Text:
        if kind.tool is not None:
            return await self.gateway.call_tool(
                context.request, kind.tool, kind.arguments(resource_id)
            )
        try:
            if kind is OUTPUT:
                output = await self.gateway.output(context.request, resource_id)
                meta: dict[str, object] = {
                    "createdBy": output.created_by,
                    "createdAt": output.created_at.isoformat(),
                    **_flag(output.content),
                }
                return Text(output.media_type, output.content, meta)
            return _of_document(await self.gateway.document(context.request, resource_id))
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)


def _read_schema() -> wire.ReadResourceResult:
    folder = files("waybook.dag.definitions")
    text = folder.joinpath("definition.schema.json").read_text("utf-8")
    contents = wire.TextResourceContents(
        uri=WORKFLOW_SCHEMA.uri, mime_type=WORKFLOW_SCHEMA.mime_type, text=text
    )
    return wire.ReadResourceResult(contents=[contents])


def _of_document(document: ReadableDocument) -> Text:
    meta: dict[str, object] = {
        "modelId": document.model,
        "createdAt": document.created_at.isoformat(),
        "version": document.version,
        "madeFrom": document.made_from,
        **_flag(document.markdown),
    }
    return Text(MARKDOWN, document.markdown, meta)


def _flag(text: str) -> dict[str, object]:
    counts = count_hidden(text)
    return {FLAG: counts} if counts else {}


def _to_resource(kind: ResourceKind, item: OpenItem) -> wire.Resource:
    return wire.Resource(
        name=item.id,
        title=item.name,
        uri=kind.uri.format(id=item.id),
        description=item.status_text,
        mime_type=JSON,
    )
