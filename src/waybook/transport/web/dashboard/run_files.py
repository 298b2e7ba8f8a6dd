"""A run as files to keep: its report, and its map as a drawing or a text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.drawing.drawing import Form, drawn_as
from waybook.dag.page import harmless
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.reading import HARMLESS
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.drawings import run_drawing
from waybook.usecases.overlook_run import RunWhole, overlook_run


def _report(whole: RunWhole) -> str:
    run = whole.board.run
    told = {**whole.board.report, "runId": run.id, "name": run.name, "usage": run.usage.as_told()}
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n"


def _drawn(form: Form, whole: RunWhole) -> str:
    return drawn_as(form, run_drawing(whole.board))


#: By the ending of the file: its media type, and how it is made.
FILES: Final[Mapping[str, tuple[str, Callable[[RunWhole], str]]]] = MappingProxyType(
    {
        "json": ("application/json", _report),
        "md": ("text/markdown", partial(_drawn, Form.MARKDOWN)),
        "svg": ("image/svg+xml", partial(_drawn, Form.SVG)),
        "mmd": ("text/plain", partial(_drawn, Form.MERMAID)),
    }
)


@dataclass(frozen=True, slots=True)
class RunFiles:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The file with this ending; it is kept, and no browser runs it."""
        ending = request.path_params["ending"]
        if ending not in FILES:
            raise HTTPException(404)
        kind, made = FILES[ending]
        whole = await overlook_run(await self.desk.call(request), request.path_params["run_id"])
        if ending == "svg":
            job = DrawingJob(run_drawing(whole.board), styled=True)
            text = await self.desk.picture(request, job) + "\n"
        else:
            text = await self.desk.drawn(request, whole.board.chart.dag, partial(made, whole))
        return as_file(f"{harmless(whole.board.run.name)}.{ending}", kind, text)


def as_file(name: str, kind: str, text: str) -> Response:
    """A text to keep; the name is one that is safe in a header."""
    headers = {
        **HARMLESS,
        "content-disposition": f'attachment; filename="{name}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return Response(text, headers=headers)
