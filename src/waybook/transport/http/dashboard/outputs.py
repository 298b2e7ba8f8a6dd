"""Export plans and runs, and show outputs of plans as Markdown, as a table or as plain text."""

import csv
import io
from itertools import islice
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from waybook.app.queries.diagrams import plan_drawing, run_drawing
from waybook.app.queries.documents import latest_outputs, plan_outputs, read_output
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_export import export_json, plan_report_text, read_plan_rows
from waybook.app.request.layout_worker import DrawingJob, layout_cost
from waybook.core.file_names import safe_file_name
from waybook.dag.diagram.svg import Drawing, export_drawing
from waybook.dag.model import DrawingFormat
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.dashboard.texts import document_html
from waybook.transport.http.requests import file_headers

MARKDOWN: Final = frozenset({"text/markdown", "text/x-markdown"})
_SEPARATORS: Final = {"text/csv": ",", "text/tab-separated-values": "\t"}
MAX_SHOWN_LENGTH: Final = 200_000
MAX_ROWS, _MAX_COLUMNS, _MAX_CELL_LENGTH = 500, 40, 300
MAX_VERSIONS: Final = 20
_CHARACTERS_PER_COST: Final = 50


async def output_list(page: PageRequest) -> Response:
    outputs, cursor = await latest_outputs(await page.context(), page.query("behind"))
    return await page.render("outputs", outputs=outputs, **page.list_links("behind", cursor))


async def plan_output_list(page: PageRequest) -> Response:
    plan_id = page.path("plan_id")
    name, outputs = await plan_outputs(await page.context(), plan_id)
    return await page.render("plan_outputs", plan_id=plan_id, plan_name=name, outputs=outputs)


async def output_page(page: PageRequest) -> Response:
    ctx = await page.context()
    output = await read_output(ctx, page.path("output_id"))
    name, versions = await plan_outputs(ctx, output.plan_id)
    shown = output.content[:MAX_SHOWN_LENGTH]
    omitted = len(output.content) - len(shown)

    def content() -> dict[str, Any]:
        kind = output.media_type.partition(";")[0].strip().lower()
        html, table = document_html(shown) if kind in MARKDOWN else None, None
        if separator := _SEPARATORS.get(kind):
            table = parse_table(shown.rpartition("\n")[0] if omitted else shown, separator)
        return {"html": html, "table": table}

    return await page.render(
        "output",
        output=output,
        plan_name=name,
        versions=[item for item in versions if item.title == output.title][:MAX_VERSIONS],
        text=shown,
        omitted=omitted,
        **await page.run_costly(len(shown) // _CHARACTERS_PER_COST, content),
    )


def parse_table(text: str, separator: str) -> dict[str, Any] | None:
    r"""Return the table in a text, or None if the text is not a table.

    The number of rows and columns is limited.

    >>> parse_table("river,km\nNile,6650\n", ",")
    {'head': ['river', 'km'], 'rows': [['Nile', '6650']], 'notes': []}
    """
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [row for row in islice(lines, MAX_ROWS + 2) if any(map(str.strip, row))]
    except csv.Error:
        return None
    if not rows:
        return None
    width = max(map(len, rows))
    padded = ([*row, *[""] * width][: min(width, _MAX_COLUMNS)] for row in rows)
    shown = [
        [t if len(t) <= _MAX_CELL_LENGTH else f"{t[:_MAX_CELL_LENGTH]}…" for t in row]
        for row in padded
    ]
    notes = []
    if len(shown) > MAX_ROWS + 1:
        notes.append(f"Only the first {MAX_ROWS} rows are shown.")
    if width > _MAX_COLUMNS:
        notes.append(f"Only the first {_MAX_COLUMNS} of {width:,} columns are shown.")
    return {"head": shown[0], "rows": shown[1 : MAX_ROWS + 1], "notes": notes}


MEDIA_TYPES: Final = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "mmd": "text/plain; charset=utf-8",
}
_DRAWINGS: Final = {"md": DrawingFormat.MARKDOWN, "mmd": DrawingFormat.MERMAID}


def _file_ending(page: PageRequest) -> str:
    ending = page.path("ending")
    if ending not in MEDIA_TYPES:
        raise HTTPException(404)
    return ending


async def _drawn(page: PageRequest, ending: str, drawing: Drawing, cost: int = 0) -> str:
    if ending == "svg":
        return await page.picture(DrawingJob(drawing, styled=True)) + "\n"
    return await page.run_costly(cost, lambda: export_drawing(_DRAWINGS[ending], drawing))


async def export_plan(page: PageRequest) -> Response:
    ending, ctx, plan_id = _file_ending(page), await page.context(), page.path("plan_id")
    kind = MEDIA_TYPES[ending]
    if ending in {"svg", "mmd"}:
        detail = await read_plan_detail(ctx, plan_id, PlanInclude.NAMES)
        text = await _drawn(page, ending, plan_drawing(detail))
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
    else:
        cost = layout_cost(detail.compiled_dag.dag)
        text = await _drawn(page, ending, run_drawing(detail), cost)
    kind = MEDIA_TYPES[ending].partition(";")[0]
    name = f"{safe_file_name(run.name)}.{ending}"
    return Response(text, headers=file_headers(name, f"{kind}; charset=utf-8"))
