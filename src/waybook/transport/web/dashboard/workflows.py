"""The prepared workflows: those there are, and one of them whole."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.drawing.sketch import sketch_of
from waybook.dag.drawing.svg import draw
from waybook.dag.structure import sound_structure
from waybook.errors import InvalidInput
from waybook.run.model import Chart
from waybook.transport.web.dashboard.addresses import asked_for
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.run_view import laid_out, named
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
        drawn = await self.desk.drawn(request, found.chart.dag, partial(_drawn, found.chart))
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


def _drawn(chart: Chart) -> Markup:
    places = {slug: place for place, slug in enumerate(chart.order, 1)}

    def address(stage: str, _: str) -> str:
        return f"#stage-{places[stage]}"

    sketch = sketch_of(sound_structure(chart.dag, chart.graphs))
    # Drawn by ourselves, with every text in it escaped.
    return Markup(draw(laid_out(sketch), address=address))  # noqa: S704


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= LONGEST_NUMBER):
        raise InvalidInput("a version is a number")
    return int(text)
