"""The page of a plan: where it stands, its map and steps, what it brought, how to change it."""

from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.changes import Refusal, changed, new_steps, refused
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.forms import sent
from waybook.transport.web.dashboard.plan_map import map_job
from waybook.transport.web.dashboard.plan_view import plan_view
from waybook.usecases.plan_sheet import read_plan_sheet


@dataclass(frozen=True, slots=True)
class PlanPage:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The page, or what became of the form that adds steps."""
        if request.method == "POST":
            return await self._add(request, await sent(request))
        return await self._shown(request)

    async def _shown(self, request: Request, refusal: Refusal | None = None) -> Response:
        call = await self.desk.call(request)
        sheet = await read_plan_sheet(call, request.path_params["plan_id"], _page(request))
        code = refusal.status if refusal else 200
        view = plan_view(sheet, await self.desk.picture(request, map_job(sheet)))
        return await self.desk.page(
            request, "plan", status_code=code, view=view, plan=sheet.plan, refusal=refusal
        )

    async def _add(self, request: Request, fields: FormData) -> Response:
        plan_id = request.path_params["plan_id"]
        answer = await self.desk.enter(
            request, "modify_plan", changed(plan_id, fields, new_steps(fields))
        )
        if answer.is_error:
            return await self._shown(request, refused(answer, "add_steps", fields))
        return RedirectResponse(f"/plans/{plan_id}", 303)


def _page(request: Request) -> int | None:
    asked = request.query_params.get("page", "")
    # More digits than any plan has pages.
    return int(asked[:9]) if asked.isascii() and asked.isdecimal() else None
