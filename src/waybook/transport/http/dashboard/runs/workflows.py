"""Workflow list, and the page of one workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.runs.workflows import (
    MODEL_COUNTS,
    documents_by_models,
    list_workflows,
    read_workflow,
)
from waybook.app.request.layout_worker import DrawingJob, Links
from waybook.dag.diagram.model import (
    diagram_from_structure,
    diagram_of_stage,
    diagram_of_stages,
)
from waybook.dag.diagram.svg import Drawing
from waybook.dag.model import RecipeStep
from waybook.dag.progress.structure import valid_structure
from waybook.errors import InvalidInput, NotFound
from waybook.run.model import CompiledDag
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name
from waybook.transport.http.html.forms import current_url_with, query_param

MAX_VERSION_DIGITS: Final = 9


#: Maximum number of steps drawn on a page, which is the maximum of a stage.
MAX_DRAWN_STEPS: Final = 500
STEPS_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    stage_urls: Mapping[str, str]
    map_job: DrawingJob | None
    steps: Mapping[str, Sequence[RecipeStep]] = field(default_factory=dict)
    chosen: str | None = None
    previous: str | None = None
    next: str | None = None
    all_stages_url: str | None = None


@dataclass(frozen=True, slots=True)
class WorkflowsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        workflows = await list_workflows(await self.page_context.request_context(request))
        return await self.page_context.render_page(
            request, "workflows", workflows=workflows, named=stage_name
        )

    async def show(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        version = _number(query_param(request, "version"))
        workflow = await read_workflow(call, request.path_params["slug"], version)
        compiled_dag = workflow.compiled_dag
        view = workflow_view(compiled_dag, query_param(request, "stage"), request)
        expected = await self.page_context.run_layout(
            request, compiled_dag.dag, partial(documents_by_models, compiled_dag)
        )
        return await self.page_context.render_page(
            request,
            "workflow",
            workflow=workflow,
            chart=compiled_dag,
            view=view,
            drawn=await self._map(request, view),
            counts=MODEL_COUNTS,
            expected=expected,
            named=stage_name,
        )

    async def _map(self, request: Request, view: WorkflowView) -> Markup | None:
        if view.map_job is None:
            return None
        return Markup(await self.page_context.picture(request, view.map_job))  # noqa: S704


def workflow_view(compiled_dag: CompiledDag, chosen: str | None, request: Request) -> WorkflowView:
    if chosen is not None and chosen not in compiled_dag.stages:
        raise NotFound(f"this workflow has no stage {chosen!r}")
    structure = valid_structure(compiled_dag.dag, compiled_dag.graphs)
    urls = {slug: current_url_with(request, stage=slug, page=None) for slug in compiled_dag.order}
    if chosen is not None:
        steps = compiled_dag.stages[chosen].recipe.steps
        number = _number(query_param(request, "page")) or 1
        last = max(1, -(-len(steps) // STEPS_PER_PAGE))
        number = min(max(number, 1), last)
        first = (number - 1) * STEPS_PER_PAGE
        drawing = Drawing(diagram_of_stage(structure, chosen))
        return WorkflowView(
            stage_urls=urls,
            map_job=DrawingJob(drawing) if len(steps) <= MAX_DRAWN_STEPS else None,
            steps={chosen: steps[first : first + STEPS_PER_PAGE]},
            chosen=chosen,
            previous=current_url_with(request, page=number - 1) if number > 1 else None,
            next=current_url_with(request, page=number + 1) if number < last else None,
            all_stages_url=current_url_with(request, stage=None, page=None),
        )
    if sum(len(stage.recipe.steps) for stage in compiled_dag.stages.values()) > MAX_DRAWN_STEPS:
        links = Links(by_step=tuple((("", slug), url) for slug, url in urls.items()))
        return WorkflowView(
            stage_urls=urls, map_job=DrawingJob(Drawing(diagram_of_stages(structure)), links=links)
        )
    links = Links(
        by_stage=tuple((s, f"#stage-{place}") for place, s in enumerate(compiled_dag.order, 1))
    )
    return WorkflowView(
        stage_urls=urls,
        map_job=DrawingJob(Drawing(diagram_from_structure(structure)), links=links),
        steps={slug: stage.recipe.steps for slug, stage in compiled_dag.stages.items()},
    )


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= MAX_VERSION_DIGITS):
        raise InvalidInput("version must be a number")
    return int(text)
