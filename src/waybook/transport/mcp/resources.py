"""Plans, runs, research and skills as MCP resources, and the interactive map app.

A host that supports MCP apps shows `map.html` next to the results of certain tools. Every file of a
skill is a resource at `skill://NAME/PATH`, by the extension `io.modelcontextprotocol/skills`.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import mcp_types as wire
from mcp.server.lowlevel import Server

from waybook.app.request.caller import WORKFLOW_SCHEMA_URI, Answer
from waybook.app.skills.skill import SKILL_FILE, Skill, SkillFile
from waybook.core.hidden_characters import FLAG, count_hidden
from waybook.errors import WaybookError
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import (
    APPS_EXTENSION,
    APPS_SESSION,
    Context,
    code_of,
    compact_json,
    error_from_answer,
    invalid_params,
)
from waybook.transport.mcp.tools import extensions_of

JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True)
class ResourceKind:
    name: str
    title: str
    uri: str
    description: str
    #: Tool that reads the resource. Documents and outputs need no tool.
    tool: str | None = None
    argument: str = ""
    #: Whether the tool returns the full text only with the argument `detail`.
    full_text: bool = False
    of_runs: bool = False
    mime_type: str = JSON

    def id_in(self, uri: str) -> str | None:
        before, after = map(re.escape, self.uri.split("{id}"))
        matched = re.fullmatch(rf"{before}([0-9A-Za-z-]{{1,64}}){after}", uri)
        return matched[1] if matched else None

    def resource(self, resource_id: str, title: str, status: str) -> wire.Resource:
        return wire.Resource(
            name=resource_id,
            title=title,
            uri=self.uri.format(id=resource_id),
            description=status,
            mime_type=JSON,
        )


PLAN: Final = ResourceKind(
    "plan",
    "Plan",
    "waybook://plans/{id}",
    "Everything needed to continue a plan: its question, its steps with their results, the open "
    "review, the artifacts and the latest history.",
    "get_research_context",
    "planId",
)
OUTPUT: Final = ResourceKind(
    "output",
    "Output of a plan",
    "waybook://outputs/{id}",
    "An output of a plan, by its outputId; the reply of a complete plan lists its outputs.",
    mime_type="text/plain",
)
RUN_PROGRESS: Final = ResourceKind(
    "run_progress",
    "Progress of a run",
    "waybook://runs/{id}/progress",
    "Progress of a run: its stages, steps and documents.",
    "get_run_progress",
    "runId",
    of_runs=True,
)
KINDS: Final = (
    PLAN,
    ResourceKind(
        "plan_map",
        "Map of a plan",
        "waybook://plans/{id}/map",
        "The steps of a plan and their order.",
        "get_dag_map",
        "planId",
    ),
    OUTPUT,
    ResourceKind(
        "artifact",
        "Artifact",
        "waybook://artifacts/{id}",
        "Research that was stored, whole, with its sources.",
        "get_artifact",
        "artifactId",
        full_text=True,
    ),
    ResourceKind(
        "source",
        "Source",
        "waybook://sources/{id}",
        "A source with its quote, and the artifacts that came from it.",
        "get_artifact",
        "artifactId",
    ),
    RUN_PROGRESS,
    ResourceKind(
        "run_map",
        "Map of a run",
        "waybook://runs/{id}/map",
        "The stages, steps and edges of a run, and how many jobs to expect.",
        "get_dag_map",
        "runId",
        of_runs=True,
    ),
    ResourceKind(
        "document",
        "Document of a run",
        "waybook://documents/{id}",
        "A rendered document, by the resourceId it has in the progress of its run.",
        of_runs=True,
        mime_type=MARKDOWN,
    ),
)
WORKFLOW_SCHEMA: Final = wire.Resource(
    name="workflow_schema",
    title="JSON schema of workflows",
    uri=WORKFLOW_SCHEMA_URI,
    description="JSON schema of a workflow definition.",
    mime_type="application/schema+json",
)


async def open_plans(
    gateway: ToolGateway, context: Context, cursor: str | None = None
) -> tuple[list[wire.Resource], str | None]:
    """Return a page of the active plans, and the cursor of the next page."""
    arguments = {"cursor": cursor} if cursor is not None else {}
    answer = await gateway.call_tool(context.request, "list_active_plans", arguments)
    if answer.is_error:
        raise error_from_answer(answer, "The active plans cannot be listed")
    plans, next_cursor = answer.body.get("plans"), answer.body.get("nextCursor")
    resources = [
        PLAN.resource(plan["planId"], plan["name"], f"{plan['state']}, {plan['progress']} % done")
        for plan in (plans if isinstance(plans, list) else ())
    ]
    return resources, next_cursor if isinstance(next_cursor, str) else None


async def open_runs(gateway: ToolGateway, context: Context) -> list[wire.Resource]:
    answer = await gateway.call_tool(context.request, "list_dags", {})
    if answer.is_error:
        raise error_from_answer(answer, "The open runs cannot be listed")
    runs, resources = answer.body.get("openRuns"), []
    for run in runs if isinstance(runs, list) else ():
        waiting, current = run["awaitingFeedback"], run["currentStage"]
        where = f"{waiting} awaits feedback" if waiting else f"{current} running"
        status = f"{run['dagSlug']}, {where}, {run['completedSteps']} steps done"
        resources.append(RUN_PROGRESS.resource(run["runId"], run["name"], status))
    return resources


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
    return APPS_EXTENSION in extensions_of(context)


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


SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
SCHEME: Final = "skill://"
_FOLDER: Final = "inode/directory"
_CACHE_SECONDS: Final[dict[str, object]] = {"ttlMs": 300_000, "cacheScope": "public"}
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".gif": "image/gif",
    ".html": "text/html",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


class _UriParams(wire.RequestParams):
    uri: str


@dataclass(frozen=True, slots=True)
class Skills:
    gateway: ToolGateway

    def serve(self, server: Server[None]) -> None:
        server.extensions[SKILLS_EXTENSION] = {"directoryRead": True}
        server.add_request_handler("skills/list", wire.PaginatedRequestParams, self.list)
        server.add_request_handler("skills/get", _UriParams, self.get)
        server.add_request_handler("resources/directory/read", _UriParams, self.folder)

    async def list(self, _: Context, __: wire.PaginatedRequestParams) -> dict[str, Any]:
        return {"skills": [entry(skill) for skill in await self.all()], **_CACHE_SECONDS}

    async def get(self, _: Context, params: _UriParams) -> dict[str, Any]:
        for skill in await self.all():
            if _uri_of(skill, SKILL_FILE) == params.uri:
                return {"skill": entry(skill), **_CACHE_SECONDS}
        raise invalid_params(f"No skill is served at {params.uri}", uri=params.uri)

    async def folder(self, _: Context, params: _UriParams) -> dict[str, Any]:
        for skill in await self.all():
            within = f"{SCHEME}{skill.name}"
            if params.uri != within and not params.uri.startswith(f"{within}/"):
                continue
            entries: dict[str, dict[str, str]] = {}
            for file in skill.files:
                uri, beginning = _uri_of(skill, file.path), f"{params.uri}/"
                if not uri.startswith(beginning):
                    continue
                inner = uri.removeprefix(beginning).split("/")
                depth = params.uri.count("/") - SCHEME.count("/")
                entries[inner[0]] = {
                    "uri": f"{beginning}{inner[0]}",
                    "name": PurePosixPath(file.path).parts[depth],
                    "mimeType": _FOLDER if len(inner) > 1 else _media_type_of(file),
                }
            if entries:
                return {"resources": [entries[name] for name in sorted(entries)]}
        raise invalid_params(f"{params.uri} is not a directory resource", uri=params.uri)

    async def listed(self) -> Sequence[wire.Resource]:
        return [
            wire.Resource(
                name=skill.name,
                uri=_uri_of(skill, SKILL_FILE),
                description=skill.description,
                mime_type="text/markdown",
            )
            for skill in await self.all()
        ]

    async def read(self, uri: str) -> wire.ReadResourceResult:
        files = {_uri_of(s, file.path): file for s in await self.all() for file in s.files}
        file = files.get(uri)
        if file is None:
            raise invalid_params("Resource not found", uri=uri)
        kind = _media_type_of(file)
        try:
            result = _result(uri, kind, file.content.decode())
        except UnicodeDecodeError:
            blob = b64encode(file.content).decode()
            contents = wire.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)
            result = wire.ReadResourceResult(contents=[contents])
        return result.model_copy(update={"ttl_ms": 300_000, "cache_scope": "public"})

    async def all(self) -> tuple[Skill, ...]:
        try:
            return (await self.gateway.dispatcher()).skills
        except WaybookError as error:
            answer = Answer(error.as_json(), is_error=True)
            raise error_from_answer(answer, "The skills cannot be read now") from None


def _uri_of(skill: Skill, path: str) -> str:
    return f"{SCHEME}{skill.name}/{quote(path)}"


def entry(skill: Skill) -> dict[str, Any]:
    return {
        "uri": _uri_of(skill, SKILL_FILE),
        "frontmatter": dict(skill.front_matter),
        "resources": [
            {
                "uri": _uri_of(skill, file.path),
                "digest": f"sha256:{sha256(file.content).hexdigest()}",
                "size": len(file.content),
            }
            for file in skill.files
        ],
    }


def _media_type_of(file: SkillFile) -> str:
    try:
        file.content.decode()
        otherwise = "text/plain"
    except UnicodeDecodeError:
        otherwise = "application/octet-stream"
    return _MEDIA_TYPES.get(PurePosixPath(file.path).suffix.lower(), otherwise)


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
        templates = [
            wire.ResourceTemplate(
                name=kind.name,
                title=kind.title,
                uri_template=kind.uri,
                description=kind.description,
                mime_type=kind.mime_type,
            )
            for kind in self.kinds
        ]
        return wire.ListResourceTemplatesResult(resource_templates=templates)

    async def list(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        cursor = params.cursor if params else None
        plans, next_cursor = await open_plans(self.gateway, context, cursor)
        resources = plans
        if self.runs and cursor is None:
            runs = await open_runs(self.gateway, context)
            resources = [*runs, *plans, WORKFLOW_SCHEMA]
        if self.skills is not None and next_cursor is None:
            resources += await self.skills.listed()
        return wire.ListResourcesResult(resources=resources, next_cursor=next_cursor)

    async def read(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        uri = params.uri
        if uri == URI:
            result = _result(uri, MIME_TYPE, page(), {"ui": {"prefersBorder": True}})
            return result.model_copy(update={"ttl_ms": 300_000, "cache_scope": "public"})
        if uri == WORKFLOW_SCHEMA.uri and self.runs:
            schema = files("waybook.dag.definitions").joinpath("definition.schema.json")
            return _result(uri, WORKFLOW_SCHEMA.mime_type, schema.read_text("utf-8"))
        if self.skills is not None and uri.startswith(SCHEME):
            return await self.skills.read(uri)
        for kind in self.kinds:
            if (resource_id := kind.id_in(uri)) is not None:
                return await self._read_kind(context, uri, kind, resource_id)
        raise invalid_params("Resource not found", uri=uri)

    async def _read_kind(
        self, context: Context, uri: str, kind: ResourceKind, resource_id: str
    ) -> wire.ReadResourceResult:
        if kind.tool is not None:
            arguments = {kind.argument: resource_id, **({"detail": True} if kind.full_text else {})}
            answer = await self.gateway.call_tool(context.request, kind.tool, arguments)
            if not answer.is_error:
                return _result(uri, kind.mime_type, compact_json(answer.body))
        else:
            try:
                mime_type, text, meta = await self._read_stored(context, kind, resource_id)
                if counts := count_hidden(text):
                    meta[FLAG] = counts
                return _result(uri, mime_type, text, meta)
            except WaybookError as error:
                answer = Answer(error.as_json(), is_error=True)
        if code_of(answer) in {"NOT_FOUND", "INVALID_INPUT"}:
            raise invalid_params("Resource not found", uri=uri)
        raise error_from_answer(answer, f"The {kind.title.lower()} cannot be read now")

    async def _read_stored(
        self, context: Context, kind: ResourceKind, resource_id: str
    ) -> tuple[str, str, dict[str, object]]:
        """Return the type, text and metadata of an output or a document. No tool reads them."""
        dispatcher, caller = await self.gateway.enter(context.request)
        if kind is OUTPUT:
            output = await dispatcher.read_output(caller, resource_id)
            meta = {"createdBy": output.created_by, "createdAt": output.created_at.isoformat()}
            return output.media_type, output.content, dict(meta)
        document = await dispatcher.read_document(caller, resource_id)
        return (
            MARKDOWN,
            document.markdown,
            {
                "modelId": document.model,
                "createdAt": document.created_at.isoformat(),
                "version": document.version,
                "madeFrom": document.made_from,
            },
        )


def _result(
    uri: str, mime_type: str | None, text: str, meta: dict[str, object] | None = None
) -> wire.ReadResourceResult:
    content = wire.TextResourceContents(uri=uri, mime_type=mime_type, text=text, _meta=meta)
    return wire.ReadResourceResult(contents=[content])
