"""Parts of `waybook export` that need workflows and diagrams, which other exports do not import."""

from collections.abc import AsyncIterator

from waybook.app.queries.diagrams import plan_drawing, run_drawing
from waybook.app.queries.export_format import export_json
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.runs.run_export import read_run_rows, run_report_text
from waybook.app.queries.timeline import plan_timeline, run_timeline
from waybook.app.request.request_context import RequestContext
from waybook.cli.commands.export import ExportFormat
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.statuses import DrawingFormat


async def plan_drawn(ctx: RequestContext, plan_id: str, form: ExportFormat) -> str:
    if form is ExportFormat.CSV:
        return await plan_timeline(ctx, plan_id)
    detail = await read_plan_detail(ctx, plan_id, PlanInclude.NAMES)
    return export_drawing(DrawingFormat.MERMAID, plan_drawing(detail))


async def run_parts(ctx: RequestContext, run_id: str, form: ExportFormat) -> AsyncIterator[bytes]:
    match form:
        case ExportFormat.JSON:
            async for part in export_json(ctx, await read_run_rows(ctx, run_id)):
                yield part
        case ExportFormat.MARKDOWN:
            yield run_report_text(await read_run_detail(ctx, run_id, RunInclude.ALL)).encode()
        case ExportFormat.MERMAID:
            detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
            yield export_drawing(DrawingFormat.MERMAID, run_drawing(detail)).encode()
        case ExportFormat.CSV:
            yield run_timeline(await read_run_rows(ctx, run_id)).encode()
