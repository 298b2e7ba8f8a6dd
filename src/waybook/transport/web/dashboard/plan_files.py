"""A plan as files to keep: everything as JSON, a report in Markdown, its map."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.dag.drawing.drawing import Drawing, DrawingFormat, export_drawing
from waybook.dag.page import safe_file_name
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.reading import SANDBOX_HEADERS
from waybook.usecases.call import RequestContext
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.drawings import plan_drawing
from waybook.usecases.export_plan import PlanRows, export_audit, export_body, read_plan_rows
from waybook.usecases.list_audit import entry_view
from waybook.usecases.plan_report_text import report_text
from waybook.usecases.watch_plan import read_plan_overview

TYPES: Final = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "mmd": "text/plain; charset=utf-8",
}
MAPS: Final = {"svg": DrawingFormat.SVG, "mmd": DrawingFormat.MERMAID}


@dataclass(frozen=True, slots=True)
class PlanExport:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The file with this ending; it is kept, and no browser runs it."""
        ending, plan_id = request.path_params["ending"], request.path_params["plan_id"]
        if ending not in TYPES:
            raise HTTPException(404)
        call = await self.desk.request_context(request)
        if ending in MAPS:
            board = await read_plan_overview(call, plan_id)
            text = await self._map(request, ending, plan_drawing(board))
            return Response(text, headers=_headers(board.plan.name, ending))
        found = await read_plan_rows(call, plan_id)
        headers = _headers(found.name, ending)
        if ending == "md":
            return Response(report_text(found), headers=headers)
        return StreamingResponse(_everything(call, found), headers=headers)

    async def _map(self, request: Request, ending: str, drawing: Drawing) -> str:
        if MAPS[ending] is not DrawingFormat.SVG:
            return export_drawing(MAPS[ending], drawing)
        return await self.desk.picture(request, DrawingJob(drawing, styled=True)) + "\n"


def _headers(name: str, ending: str) -> dict[str, str]:
    kept = f'attachment; filename="{safe_file_name(name)}.{ending}"'
    return {**SANDBOX_HEADERS, "content-disposition": kept, "content-type": TYPES[ending]}


async def _everything(ctx: RequestContext, found: PlanRows) -> AsyncIterator[bytes]:
    """The export, its audit page by page: that may be longer than anything should be at once."""
    yield orjson.dumps(export_body(found))[:-1] + b',"audit":['
    comma = b""
    async for page in export_audit(ctx, found):
        yield comma + b",".join(orjson.dumps(entry_view(entry)) for entry in page)
        comma = b","
    yield b"]}\n"
