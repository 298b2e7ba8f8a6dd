"""The page of a plan: where it stands, its map and steps, what it brought, how to change it."""

from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.changes import (
    FormError,
    add_steps_modification,
    form_error,
    modification_arguments,
)
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.forms import read_form
from waybook.transport.web.dashboard.plan_map import map_job
from waybook.transport.web.dashboard.plan_view import plan_view
from waybook.usecases.plan_sheet import read_plan_detail


@dataclass(frozen=True, slots=True)
class PlanPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The page, or what became of the form that adds steps."""
        if request.method == "POST":
            return await self._add(request, await read_form(request))
        return await self._shown(request)

    async def _shown(self, request: Request, refusal: FormError | None = None) -> Response:
        call = await self.desk.request_context(request)
        sheet = await read_plan_detail(call, request.path_params["plan_id"], _page(request))
        code = refusal.status if refusal else 200
        view = plan_view(sheet, await self.desk.picture(request, map_job(sheet)))
        return await self.desk.render_page(
            request, "plan", status_code=code, view=view, plan=sheet.plan, refusal=refusal
        )

    async def _add(self, request: Request, fields: FormData) -> Response:
        plan_id = request.path_params["plan_id"]
        answer = await self.desk.call_tool(
            request,
            "modify_plan",
            modification_arguments(plan_id, fields, add_steps_modification(fields)),
        )
        if answer.is_error:
            return await self._shown(request, form_error(answer, "add_steps", fields))
        return RedirectResponse(f"/plans/{plan_id}", 303)


def _page(request: Request) -> int | None:
    asked = request.query_params.get("page", "")
    # More digits than any plan has pages.
    return int(asked[:9]) if asked.isascii() and asked.isdecimal() else None
