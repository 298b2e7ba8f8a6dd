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

from waybook.dag.drawing.drawing import DrawingFormat, export_drawing
from waybook.dag.page import safe_file_name
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.reading import SANDBOX_HEADERS
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.drawings import run_drawing
from waybook.usecases.overlook_run import RunDetail, read_run_detail


def _report(whole: RunDetail) -> str:
    run = whole.overview.run
    told = {
        **whole.overview.report,
        "runId": run.id,
        "name": run.name,
        "usage": run.usage.as_reply(),
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n"


def _drawn(form: DrawingFormat, whole: RunDetail) -> str:
    return export_drawing(form, run_drawing(whole.overview))


#: By the ending of the file: its media type, and how it is made.
EXPORT_FORMATS: Final[Mapping[str, tuple[str, Callable[[RunDetail], str]]]] = MappingProxyType(
    {
        "json": ("application/json", _report),
        "md": ("text/markdown", partial(_drawn, DrawingFormat.MARKDOWN)),
        "svg": ("image/svg+xml", partial(_drawn, DrawingFormat.SVG)),
        "mmd": ("text/plain", partial(_drawn, DrawingFormat.MERMAID)),
    }
)


@dataclass(frozen=True, slots=True)
class RunExport:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The file with this ending; it is kept, and no browser runs it."""
        ending = request.path_params["ending"]
        if ending not in EXPORT_FORMATS:
            raise HTTPException(404)
        kind, made = EXPORT_FORMATS[ending]
        whole = await read_run_detail(
            await self.desk.request_context(request), request.path_params["run_id"]
        )
        if ending == "svg":
            job = DrawingJob(run_drawing(whole.overview), styled=True)
            text = await self.desk.picture(request, job) + "\n"
        else:
            text = await self.desk.run_layout(
                request, whole.overview.compiled_dag.dag, partial(made, whole)
            )
        return file_response(f"{safe_file_name(whole.overview.run.name)}.{ending}", kind, text)


def file_response(name: str, kind: str, text: str) -> Response:
    """A text to keep; the name is one that is safe in a header."""
    headers = {
        **SANDBOX_HEADERS,
        "content-disposition": f'attachment; filename="{name}"',
        "content-type": f"{kind}; charset=utf-8",
    }
    return Response(text, headers=headers)
