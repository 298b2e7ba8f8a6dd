"""Plans, runs and research as resources, to be attached to a conversation without a tool."""

from dataclasses import dataclass
from typing import NamedTuple

import mcp_types as wire

from waybook.errors import WaybookError
from waybook.record.oddities import FLAG, count_hidden
from waybook.transport.entrance import ToolGateway
from waybook.transport.faults import compact_json
from waybook.transport.mcp.active import OpenItem, open_plans, open_runs
from waybook.transport.mcp.app.resource import URI, read_app
from waybook.transport.mcp.refusals import Context, code_of, error_from_answer, invalid_params
from waybook.transport.mcp.resource_kinds import (
    JSON,
    KINDS,
    MARKDOWN,
    OUTPUT,
    PLAN,
    RUN_PROGRESS,
    ResourceKind,
)
from waybook.transport.mcp.skills import SCHEME, Skills
from waybook.usecases.exchange import Answer, ReadableDocument, ReadableOutput


class Text(NamedTuple):
    """A resource's text; where it is somebody's, with whose it is beside it."""

    mime_type: str
    text: str
    meta: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """The plans of whoever asks, and the runs if they are offered here."""

    entrance: ToolGateway
    runs: bool
    #: Where skills can be started, their files are resources too.
    skills: Skills | None = None

    @property
    def kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds that are offered."""
        return tuple(kind for kind in KINDS if self.runs or not kind.of_runs)

    async def templates(self, _: Context, __: object) -> wire.ListResourceTemplatesResult:
        """The kinds of resources, from memory."""
        templates = [kind.template() for kind in self.kinds]
        return wire.ListResourceTemplatesResult(resource_templates=templates)

    async def list(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        """The open runs, then the active plans by pages, newest activity first; then the skills."""
        cursor = params.cursor if params else None
        page = await open_plans(self.entrance, context, cursor)
        runs = await open_runs(self.entrance, context) if self.runs and cursor is None else ()
        resources = [to_resource(RUN_PROGRESS, run) for run in runs]
        resources += [to_resource(PLAN, plan) for plan in page.plans]
        if self.skills is not None and page.next_cursor is None:
            resources += await self.skills.listed()
        return wire.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)

    async def read(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        """A resource as the tool that reads it answers, or the text of a document or an output."""
        if params.uri == URI:
            return read_app()
        if self.skills is not None and params.uri.startswith(SCHEME):
            return await self.skills.read(params.uri)
        for kind in self.kinds:
            found = kind.id_in(params.uri)
            if found is not None:
                mime_type, text, meta = await self._text(context, params.uri, kind, found)
                contents = wire.TextResourceContents(
                    uri=params.uri, mime_type=mime_type, text=text, _meta=meta
                )
                return wire.ReadResourceResult(contents=[contents])
        raise invalid_params("Resource not found", uri=params.uri)

    async def _text(self, context: Context, uri: str, kind: ResourceKind, found: str) -> Text:
        answer = await self._answer(context, kind, found)
        if isinstance(answer, Text):
            return answer
        if code_of(answer) in {"NOT_FOUND", "INVALID_INPUT"}:
            raise invalid_params("Resource not found", uri=uri)
        if answer.is_error:
            raise error_from_answer(answer, f"The {kind.title.lower()} cannot be read now")
        return Text(kind.mime_type, compact_json(answer.body))

    async def _answer(self, context: Context, kind: ResourceKind, found: str) -> Answer | Text:
        if kind.tool is not None:
            return await self.entrance.call_tool(context.request, kind.tool, kind.arguments(found))
        try:
            if kind is OUTPUT:
                output = await self.entrance.output(context.request, found)
                return _of_output(output)
            return _of_document(await self.entrance.document(context.request, found))
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)


def _of_output(output: ReadableOutput) -> Text:
    meta: dict[str, object] = {
        "createdBy": output.created_by,
        "createdAt": output.created_at.isoformat(),
        **_flag(output.content),
    }
    return Text(output.media_type, output.content, meta)


def _of_document(document: ReadableDocument) -> Text:
    meta: dict[str, object] = {
        "modelId": document.model,
        "createdAt": document.created_at.isoformat(),
        **_flag(document.markdown),
    }
    return Text(MARKDOWN, document.markdown, meta)


def _flag(text: str) -> dict[str, object]:
    found = count_hidden(text)
    return {FLAG: found} if found else {}


def to_resource(kind: ResourceKind, item: OpenItem) -> wire.Resource:
    """Something open, as a client lists it."""
    return wire.Resource(
        name=item.id,
        title=item.name,
        uri=kind.uri.format(id=item.id),
        description=item.status_text,
        mime_type=JSON,
    )
