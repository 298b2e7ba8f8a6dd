"""The prepared workflows: those there are, and one of them whole."""

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.drawing.drawing import Drawing
from waybook.dag.drawing.sketch import sketch_of
from waybook.dag.structure import sound_structure
from waybook.errors import InvalidInput
from waybook.run.model import Chart
from waybook.transport.web.dashboard.addresses import asked_for
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.run_view import named
from waybook.usecases.drawing_worker import DrawingJob, Links
from waybook.usecases.read_workflows import (
    MODEL_COUNTS,
    documents_by_models,
    list_workflows,
    read_workflow,
)

LONGEST_NUMBER: Final = 9


@dataclass(frozen=True, slots=True)
class Workflows:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The list."""
        found = await list_workflows(await self.desk.call(request))
        return await self.desk.page(request, "workflows", workflows=found, named=named)

    async def one(self, request: Request) -> Response:
        """A workflow: its map, its stages with their prompts, what to expect of it."""
        call = await self.desk.call(request)
        version = _number(asked_for(request, "version"))
        found = await read_workflow(call, request.path_params["slug"], version)
        # Drawn by ourselves, with every text in it escaped.
        drawn = Markup(await self.desk.picture(request, _map_job(found.chart)))  # noqa: S704
        return await self.desk.page(
            request,
            "workflow",
            workflow=found,
            chart=found.chart,
            drawn=drawn,
            counts=MODEL_COUNTS,
            expected=documents_by_models(found.chart),
            named=named,
        )


def _map_job(chart: Chart) -> DrawingJob:
    """Return the map of a workflow, with links to its stages."""
    links = tuple((slug, f"#stage-{place}") for place, slug in enumerate(chart.order, 1))
    drawing = Drawing(sketch_of(sound_structure(chart.dag, chart.graphs)))
    return DrawingJob(drawing, links=Links(by_stage=links))


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= LONGEST_NUMBER):
        raise InvalidInput("a version is a number")
    return int(text)
