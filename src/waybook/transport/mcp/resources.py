"""Plans and runs as resources: what can be attached to a conversation without calling a tool."""

import re
from dataclasses import dataclass
from typing import Final

import mcp_types as wire

from waybook.errors import WaybookError
from waybook.transport.entrance import Entrance
from waybook.transport.faults import compact
from waybook.transport.mcp.active import Active, active_plans, open_runs
from waybook.transport.mcp.refusals import Context, code_of, invalid, refused
from waybook.usecases.exchange import Answer

JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of resource: how it is named, and the call that reads it."""

    name: str
    title: str
    #: With `{id}` for the id of the plan or run.
    uri: str
    description: str
    #: The tool, and what the id is called there; a document is read without one.
    tool: str | None = None
    argument: str = ""
    of_runs: bool = False
    mime_type: str = JSON

    def id_in(self, uri: str) -> str | None:
        """The id in a URI of this kind."""
        before, after = map(re.escape, self.uri.split("{id}"))
        matched = re.fullmatch(rf"{before}([0-9A-Za-z-]{{1,64}}){after}", uri)
        return matched[1] if matched else None

    def template(self) -> wire.ResourceTemplate:
        """The kind as a client lists it."""
        return wire.ResourceTemplate(
            name=self.name,
            title=self.title,
            uri_template=self.uri,
            description=self.description,
            mime_type=self.mime_type,
        )


PLAN: Final = Kind(
    name="plan",
    title="Plan",
    uri="waybook://plans/{id}",
    description="Everything needed to go on with a plan: its question, its steps with their "
    "results, the open review, the artifacts and the latest history.",
    tool="get_research_context",
    argument="planId",
)
PLAN_MAP: Final = Kind(
    name="plan_map",
    title="Map of a plan",
    uri="waybook://plans/{id}/map",
    description="The steps of a plan and what follows what.",
    tool="get_dag_map",
    argument="planId",
)
RUN_PROGRESS: Final = Kind(
    name="run_progress",
    title="Progress of a run",
    uri="waybook://runs/{id}/progress",
    description="Where a run stands: its stages and steps, and the documents there are to read.",
    tool="get_run_progress",
    argument="runId",
    of_runs=True,
)
RUN_MAP: Final = Kind(
    name="run_map",
    title="Map of a run",
    uri="waybook://runs/{id}/map",
    description="The stages, steps and edges of a run, and how many jobs to expect.",
    tool="get_dag_map",
    argument="runId",
    of_runs=True,
)
DOCUMENT: Final = Kind(
    name="document",
    title="Document of a run",
    uri="waybook://documents/{id}",
    description="A rendered document, by the resourceId it has in the progress of its run.",
    of_runs=True,
    mime_type=MARKDOWN,
)
OUTPUT: Final = Kind(
    name="output",
    title="Output of a plan",
    uri="waybook://outputs/{id}",
    description="A deliverable of a plan, by the outputId that get_next_step has of it once the "
    "plan is complete.",
    mime_type="text/plain",
)
KINDS: Final = (PLAN, PLAN_MAP, OUTPUT, RUN_PROGRESS, RUN_MAP, DOCUMENT)


@dataclass(frozen=True, slots=True)
class Resources:
    """The plans of whoever asks, and the runs if they are offered here."""

    entrance: Entrance
    runs: bool

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are offered."""
        return tuple(kind for kind in KINDS if self.runs or not kind.of_runs)

    async def templates(self, _: Context, __: object) -> wire.ListResourceTemplatesResult:
        """The kinds of resources, from memory."""
        templates = [kind.template() for kind in self.kinds]
        return wire.ListResourceTemplatesResult(resource_templates=templates)

    async def list(
        self, context: Context, params: wire.PaginatedRequestParams | None
    ) -> wire.ListResourcesResult:
        """The open runs, then the active plans by pages; each newest activity first."""
        cursor = params.cursor if params else None
        page = await active_plans(self.entrance, context, cursor)
        runs = await open_runs(self.entrance, context) if self.runs and cursor is None else ()
        resources = [listed(RUN_PROGRESS, run) for run in runs]
        resources += [listed(PLAN, plan) for plan in page.plans]
        return wire.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)

    async def read(
        self, context: Context, params: wire.ReadResourceRequestParams
    ) -> wire.ReadResourceResult:
        """A resource as the tool that reads it answers, or the text of a document or an output."""
        for kind in self.kinds:
            found = kind.id_in(params.uri)
            if found is not None:
                mime_type, text = await self._text(context, params.uri, kind, found)
                contents = wire.TextResourceContents(uri=params.uri, mime_type=mime_type, text=text)
                return wire.ReadResourceResult(contents=[contents])
        raise invalid("Resource not found", uri=params.uri)

    async def _text(self, context: Context, uri: str, kind: Kind, found: str) -> tuple[str, str]:
        answer = await self._answer(context, kind, found)
        if isinstance(answer, tuple):
            return answer
        if code_of(answer) in {"NOT_FOUND", "INVALID_INPUT"}:
            raise invalid("Resource not found", uri=uri)
        if answer.is_error:
            raise refused(answer, f"The {kind.title.lower()} cannot be read now")
        return kind.mime_type, compact(answer.body)

    async def _answer(self, context: Context, kind: Kind, found: str) -> Answer | tuple[str, str]:
        if kind.tool is not None:
            return await self.entrance.enter(context.request, kind.tool, {kind.argument: found})
        try:
            if kind is OUTPUT:
                output = await self.entrance.output(context.request, found)
                return output.media_type, output.content
            return MARKDOWN, (await self.entrance.document(context.request, found)).markdown
        except WaybookError as fault:
            return Answer(fault.as_json(), is_error=True)


def listed(kind: Kind, item: Active) -> wire.Resource:
    """Something open, as a client lists it."""
    return wire.Resource(
        name=item.id,
        title=item.name,
        uri=kind.uri.format(id=item.id),
        description=item.standing,
        mime_type=JSON,
    )
