"""The page of a step: what it is told, what it brought, what it went through, how to change it."""

from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.changes import (
    ChangePreview,
    FormError,
    change_preview,
    field_text,
    form_error,
    modification_arguments,
    step_modification,
)
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.forms import read_form
from waybook.transport.web.dashboard.step_view import step_view
from waybook.usecases.step_sheet import StepDetail, read_step_detail


@dataclass(frozen=True, slots=True)
class StepPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The page, or what became of one of its forms."""
        if request.method == "POST":
            return await self._change(request, await read_form(request))
        return await self._shown(request, await self._read(request))

    async def _read(self, request: Request) -> StepDetail:
        named = request.path_params
        return await read_step_detail(
            await self.desk.request_context(request), named["plan_id"], named["step_id"]
        )

    async def _shown(
        self,
        request: Request,
        sheet: StepDetail,
        refusal: FormError | None = None,
        preview: ChangePreview | None = None,
    ) -> Response:
        return await self.desk.render_page(
            request,
            "step",
            status_code=refusal.status if refusal else 200,
            view=step_view(sheet),
            plan=sheet.plan,
            step=sheet.step,
            refusal=refusal,
            preview=preview,
        )

    async def _change(self, request: Request, fields: FormData) -> Response:
        """Carry a form out, or show what would come of it, or say what stands in the way."""
        sheet = await self._read(request)
        plan, action = sheet.plan, field_text(fields, "action")
        asked = modification_arguments(plan.id, fields, step_modification(sheet, action, fields))
        preview = "preview" in fields
        answer = await self.desk.call_tool(request, "modify_plan", {**asked, "dryRun": preview})
        if answer.is_error:
            now = await self._read(request)
            return await self._shown(request, now, form_error(answer, action, fields))
        if preview:
            return await self._shown(request, sheet, preview=change_preview(sheet, answer, fields))
        gone = action == "remove_step"
        where = f"/plans/{plan.id}" if gone else f"/plans/{plan.id}/steps/{sheet.step.id}"
        return RedirectResponse(where, 303)
