"""Queries for documents and outputs."""

import contextlib
from datetime import datetime

from waybook.app.request.access import load_plan
from waybook.app.request.caller import ReadableOutput
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.core.file_names import safe_file_name
from waybook.core.ids import id_or_nil
from waybook.errors import InvalidInput
from waybook.json_values import rfc3339
from waybook.plan.model import Output
from waybook.plan.store_output import file_extension
from waybook.store.driver.queries import LAST_UUID, is_uuid
from waybook.store.plans import details
from waybook.store.plans.load import PlanRequest
from waybook.store.runs import jobs


async def are_documents_pending(ctx: RequestContext) -> bool:
    (rows,) = await ctx.read(jobs.SQL["runs_to_render"](most=1))
    return bool(rows)


PAGE_SIZE = 25


async def plan_outputs(ctx: RequestContext, plan_id: str) -> tuple[str, list[Output]]:
    """Return the name of a plan, and its outputs."""
    plan_id = id_or_nil(plan_id)
    wanted = PlanRequest(plan_id=plan_id, review=False)
    loaded, (rows,) = await load_plan(ctx, wanted, details.outputs_statement(plan_id))
    return loaded.plan.name, rows


async def latest_outputs(
    ctx: RequestContext, behind: str | None = None, limit: int = PAGE_SIZE
) -> tuple[list[tuple[Output, str, str]], str | None]:
    """Return a page of outputs with the ids and names of their plans, and the next cursor."""
    (rows,) = await ctx.read(details.latest_statement(_place(behind), limit + 1))
    shown = [(row.output, row.plan_id, row.plan_name) for row in rows[:limit]]
    last = shown[-1][0] if len(rows) > limit else None
    return shown, f"{rfc3339(last.created_at)}~{last.id}" if last else None


def _place(behind: str | None) -> tuple[str, str]:
    """Decode a cursor: return the time and id of the last output on the previous page."""
    if behind is None:
        return "infinity", LAST_UUID
    at, _, output_id = behind.partition("~")
    with contextlib.suppress(ValueError):
        if is_uuid(output_id):
            return rfc3339(datetime.fromisoformat(at)), output_id
    raise InvalidInput("invalid cursor; start from the first page")


async def read_output(ctx: RequestContext, output_id: str) -> ReadableOutput:
    (rows,) = await ctx.read(details.SQL["output"](id=uuid_or_nil(output_id)))
    if not rows:
        raise not_found("output")
    output: Output = rows[0].output
    return ReadableOutput(
        output_id=output.id,
        plan_id=rows[0].plan_id,
        title=output.title,
        media_type=output.media_type,
        version=output.version,
        created_at=output.created_at,
        created_by=output.created_by,
        content=rows[0].content,
        file_name=file_name(output),
    )


def file_name(output: Output) -> str:
    return f"{safe_file_name(output.title)}.v{output.version}.{file_extension(output.media_type)}"
