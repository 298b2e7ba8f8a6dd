"""Exports of plans and runs: JSON, Markdown, and the map as SVG or Mermaid.

An export is a download that browsers do not execute.
"""

from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from waybook.app.queries.diagrams import plan_drawing, run_drawing
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_export import export_json, plan_report_text, read_plan_rows
from waybook.app.request.layout_worker import DrawingJob, layout_cost
from waybook.core.file_names import safe_file_name
from waybook.dag.diagram.svg import Drawing, export_drawing
from waybook.dag.statuses import DrawingFormat
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.requests import SANDBOX_HEADERS

MEDIA_TYPES: Final = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "mmd": "text/plain; charset=utf-8",
}
_DRAWINGS: Final = {"md": DrawingFormat.MARKDOWN, "mmd": DrawingFormat.MERMAID}


def file_headers(name: str, media_type: str) -> dict[str, str]:
    """Return the headers of a file download. `name` must be safe in a header."""
    disposition = f'attachment; filename="{name}"'
    return {**SANDBOX_HEADERS, "content-disposition": disposition, "content-type": media_type}


def _file_ending(page: PageRequest) -> str:
    ending = page.path("ending")
    if ending not in MEDIA_TYPES:
        raise HTTPException(404)
    return ending


async def _picture(page: PageRequest, drawing: Drawing) -> str:
    return await page.picture(DrawingJob(drawing, styled=True)) + "\n"


async def export_plan(page: PageRequest) -> Response:
    ending, ctx, plan_id = _file_ending(page), await page.context(), page.path("plan_id")
    kind = MEDIA_TYPES[ending]
    if ending in {"svg", "mmd"}:
        detail = await read_plan_detail(ctx, plan_id, PlanInclude.NAMES)
        drawing = plan_drawing(detail)
        if ending == "svg":
            text = await _picture(page, drawing)
        else:
            text = export_drawing(_DRAWINGS[ending], drawing)
        name = f"{safe_file_name(detail.plan.name)}.{ending}"
        return Response(text, headers=file_headers(name, kind))
    rows = await read_plan_rows(ctx, plan_id)
    headers = file_headers(f"{safe_file_name(rows.name)}.{ending}", kind)
    if ending == "md":
        return Response(plan_report_text(rows), headers=headers)
    return StreamingResponse(export_json(ctx, rows), headers=headers)


async def export_run(page: PageRequest) -> Response:
    ending, ctx = _file_ending(page), await page.context()
    detail = await read_run_detail(ctx, page.path("run_id"), RunInclude.NOTHING)
    run = detail.run
    if ending == "json":
        named = {"runId": run.id, "name": run.name, "usage": run.usage.as_reply()}
        report = {**detail.report, **named}
        text = orjson.dumps(report, option=orjson.OPT_INDENT_2).decode() + "\n"
    elif ending == "svg":
        text = await _picture(page, run_drawing(detail))
    else:
        text = await page.run_costly(
            layout_cost(detail.compiled_dag.dag),
            lambda: export_drawing(_DRAWINGS[ending], run_drawing(detail)),
        )
    kind = MEDIA_TYPES[ending].partition(";")[0]
    name = f"{safe_file_name(run.name)}.{ending}"
    return Response(text, headers=file_headers(name, f"{kind}; charset=utf-8"))
