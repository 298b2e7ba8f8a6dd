"""The page of a step: what it is told, what it brought, what it went through, how to change it."""

from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.changes import (
    Preview,
    Refusal,
    change_of_step,
    changed,
    preview_of,
    refused,
    text_of,
)
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.forms import sent
from waybook.transport.web.dashboard.step_view import step_view
from waybook.usecases.step_sheet import StepSheet, read_step_sheet


@dataclass(frozen=True, slots=True)
class StepPage:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The page, or what became of one of its forms."""
        if request.method == "POST":
            return await self._change(request, await sent(request))
        return await self._shown(request, await self._read(request))

    async def _read(self, request: Request) -> StepSheet:
        named = request.path_params
        return await read_step_sheet(
            await self.desk.call(request), named["plan_id"], named["step_id"]
        )

    async def _shown(
        self,
        request: Request,
        sheet: StepSheet,
        refusal: Refusal | None = None,
        preview: Preview | None = None,
    ) -> Response:
        return await self.desk.page(
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
        plan, action = sheet.plan, text_of(fields, "action")
        asked = changed(plan.id, fields, change_of_step(sheet, action, fields))
        preview = "preview" in fields
        answer = await self.desk.enter(request, "modify_plan", {**asked, "dryRun": preview})
        if answer.is_error:
            now = await self._read(request)
            return await self._shown(request, now, refused(answer, action, fields))
        if preview:
            return await self._shown(request, sheet, preview=preview_of(sheet, answer, fields))
        gone = action == "remove_step"
        where = f"/plans/{plan.id}" if gone else f"/plans/{plan.id}/steps/{sheet.step.id}"
        return RedirectResponse(where, 303)
