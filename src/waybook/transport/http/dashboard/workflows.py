"""Workflow list, and the page of one workflow."""

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.workflows import (
    MODEL_COUNTS,
    documents_by_models,
    list_workflows,
    read_workflow,
)
from waybook.app.request.layout_worker import DrawingJob, Links
from waybook.dag.diagram.export import Drawing
from waybook.dag.diagram.model import diagram_from_structure
from waybook.dag.progress.structure import valid_structure
from waybook.errors import InvalidInput
from waybook.run.model import CompiledDag
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.run_stage_view import stage_name
from waybook.transport.http.html.forms import query_param

MAX_VERSION_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class WorkflowsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Render the list of workflows."""
        workflows = await list_workflows(await self.page_context.request_context(request))
        return await self.page_context.render_page(
            request, "workflows", workflows=workflows, named=stage_name
        )

    async def show(self, request: Request) -> Response:
        """Render a workflow page with map, stages, prompts, and expected documents."""
        call = await self.page_context.request_context(request)
        version = _number(query_param(request, "version"))
        workflow = await read_workflow(call, request.path_params["slug"], version)
        # The SVG can be inserted into the page without escaping, because Waybook drew it and
        # escaped every text in it.
        drawn = Markup(await self.page_context.picture(request, _map_job(workflow.compiled_dag)))  # noqa: S704
        return await self.page_context.render_page(
            request,
            "workflow",
            workflow=workflow,
            chart=workflow.compiled_dag,
            drawn=drawn,
            counts=MODEL_COUNTS,
            expected=documents_by_models(workflow.compiled_dag),
            named=stage_name,
        )


def _map_job(compiled_dag: CompiledDag) -> DrawingJob:
    """Return the drawing job for the workflow map, with links to the stages."""
    links = tuple((slug, f"#stage-{place}") for place, slug in enumerate(compiled_dag.order, 1))
    drawing = Drawing(
        diagram_from_structure(valid_structure(compiled_dag.dag, compiled_dag.graphs))
    )
    return DrawingJob(drawing, links=Links(by_stage=links))


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= MAX_VERSION_DIGITS):
        raise InvalidInput("a version is a number")
    return int(text)
