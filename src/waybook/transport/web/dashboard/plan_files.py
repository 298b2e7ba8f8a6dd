"""A plan as files to keep: everything as JSON, a report in Markdown, its map."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from waybook.dag.drawing.drawing import Drawing, Form, drawn_as
from waybook.dag.page import harmless
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.reading import HARMLESS
from waybook.usecases.call import Call
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.drawings import plan_drawing
from waybook.usecases.export_plan import PlanRows, export_audit, export_body, read_plan_rows
from waybook.usecases.list_audit import entry_view
from waybook.usecases.plan_report_text import report_text
from waybook.usecases.watch_plan import watch_plan

TYPES: Final = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "mmd": "text/plain; charset=utf-8",
}
MAPS: Final = {"svg": Form.SVG, "mmd": Form.MERMAID}


@dataclass(frozen=True, slots=True)
class PlanFiles:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The file with this ending; it is kept, and no browser runs it."""
        ending, plan_id = request.path_params["ending"], request.path_params["plan_id"]
        if ending not in TYPES:
            raise HTTPException(404)
        call = await self.desk.call(request)
        if ending in MAPS:
            board = await watch_plan(call, plan_id)
            text = await self._map(request, ending, plan_drawing(board))
            return Response(text, headers=_headers(board.plan.name, ending))
        found = await read_plan_rows(call, plan_id)
        headers = _headers(found.name, ending)
        if ending == "md":
            return Response(report_text(found), headers=headers)
        return StreamingResponse(_everything(call, found), headers=headers)

    async def _map(self, request: Request, ending: str, drawing: Drawing) -> str:
        if MAPS[ending] is not Form.SVG:
            return drawn_as(MAPS[ending], drawing)
        return await self.desk.picture(request, DrawingJob(drawing, styled=True)) + "\n"


def _headers(name: str, ending: str) -> dict[str, str]:
    kept = f'attachment; filename="{harmless(name)}.{ending}"'
    return {**HARMLESS, "content-disposition": kept, "content-type": TYPES[ending]}


async def _everything(call: Call, found: PlanRows) -> AsyncIterator[bytes]:
    """The export, its audit page by page: that may be longer than anything should be at once."""
    yield orjson.dumps(export_body(found))[:-1] + b',"audit":['
    comma = b""
    async for page in export_audit(call, found):
        yield comma + b",".join(orjson.dumps(entry_view(entry)) for entry in page)
        comma = b","
    yield b"]}\n"
