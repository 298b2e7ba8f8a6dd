"""Pages of a plan and its steps, and exports of the plan as JSON, Markdown report or map."""

from dataclasses import dataclass
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from waybook.app.queries.diagrams import plan_drawing
from waybook.app.queries.export_format import export_json
from waybook.app.queries.inbox import read_evidence
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.plans.plan_export import read_plan_rows, report_text
from waybook.app.queries.plans.step import StepDetail, read_step_detail
from waybook.app.request.layout_worker import DrawingJob
from waybook.core.file_names import safe_file_name
from waybook.dag.diagram.svg import Drawing, export_drawing
from waybook.dag.statuses import DrawingFormat
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.plans.condition_forms import (
    condition_forms,
    condition_refusal,
    submitted_conditions,
)
from waybook.transport.http.dashboard.plans.plan_forms import (
    ChangePreview,
    FormError,
    change_preview,
    field_text,
    form_error,
    modification_arguments,
    step_modification,
    typed_values,
)
from waybook.transport.http.dashboard.plans.plan_view import map_job, plan_view
from waybook.transport.http.dashboard.plans.step_view import step_view
from waybook.transport.http.html.forms import read_form
from waybook.transport.http.requests import SANDBOX_HEADERS


@dataclass(frozen=True, slots=True)
class PlanPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        plan_id = request.path_params["plan_id"]
        sheet = await read_plan_detail(call, plan_id, PlanInclude.PAGE, page=_page(request))
        review = sheet.review_record
        evidence = (await read_evidence(call, [review.id]))[review.id] if review else None
        picture = await self.page_context.picture(request, map_job(sheet))
        view = plan_view(sheet, picture, evidence)
        return await self.page_context.render_page(request, "plan", view=view, plan=sheet.plan)


def _page(request: Request) -> int | None:
    text = request.query_params.get("page", "")
    # A page number has at most nine digits.
    return int(text[:9]) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True)
class StepPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._change(request, await read_form(request))
        return await self._shown(request, await self._read(request))

    async def _read(self, request: Request) -> StepDetail:
        named = request.path_params
        return await read_step_detail(
            await self.page_context.request_context(request), named["plan_id"], named["step_id"]
        )

    async def _shown(
        self,
        request: Request,
        sheet: StepDetail,
        refusal: FormError | None = None,
        preview: ChangePreview | None = None,
    ) -> Response:
        return await self.page_context.render_page(
            request,
            "step",
            status_code=refusal.status if refusal else 200,
            view=step_view(sheet),
            plan=sheet.plan,
            step=sheet.step,
            conditions_to_edit=condition_forms(sheet, refusal),
            refusal=refusal,
            preview=preview,
        )

    async def _change(self, request: Request, fields: FormData) -> Response:
        sheet = await self._read(request)
        plan, action = sheet.plan, field_text(fields, "action")
        modification = step_modification(sheet, action, fields)
        if action == "set_conditions" and "condition" in fields:
            typed = typed_values(fields)
            conditions, faults = submitted_conditions(sheet, typed)
            if faults:
                return await self._shown(request, sheet, condition_refusal(typed, faults))
            modification["branchingConditions"] = conditions
        args = modification_arguments(plan.id, fields, modification)
        preview = "preview" in fields
        answer = await self.page_context.call_tool(
            request, "modify_plan", {**args, "dryRun": preview}
        )
        if answer.is_error:
            now = await self._read(request)
            return await self._shown(request, now, form_error(answer, action, fields))
        if preview:
            return await self._shown(request, sheet, preview=change_preview(sheet, answer, fields))
        gone = action == "remove_step"
        where = f"/plans/{plan.id}" if gone else f"/plans/{plan.id}/steps/{sheet.step.id}"
        return RedirectResponse(where, 303)


TYPES: Final = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "svg": "image/svg+xml",
    "mmd": "text/plain; charset=utf-8",
}
MAPS: Final = {"svg": DrawingFormat.SVG, "mmd": DrawingFormat.MERMAID}


@dataclass(frozen=True, slots=True)
class PlanExport:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Return the export as a download that browsers do not execute."""
        ending, plan_id = request.path_params["ending"], request.path_params["plan_id"]
        if ending not in TYPES:
            raise HTTPException(404)
        call = await self.page_context.request_context(request)
        if ending in MAPS:
            board = await read_plan_detail(call, plan_id, PlanInclude.NAMES)
            text = await self._map(request, ending, plan_drawing(board))
            return Response(text, headers=_headers(board.plan.name, ending))
        rows = await read_plan_rows(call, plan_id)
        headers = _headers(rows.name, ending)
        if ending == "md":
            return Response(report_text(rows), headers=headers)
        return StreamingResponse(export_json(call, rows), headers=headers)

    async def _map(self, request: Request, ending: str, drawing: Drawing) -> str:
        if MAPS[ending] is not DrawingFormat.SVG:
            return export_drawing(MAPS[ending], drawing)
        return await self.page_context.picture(request, DrawingJob(drawing, styled=True)) + "\n"


def _headers(name: str, ending: str) -> dict[str, str]:
    disposition = f'attachment; filename="{safe_file_name(name)}.{ending}"'
    return {**SANDBOX_HEADERS, "content-disposition": disposition, "content-type": TYPES[ending]}
