"""The front page: the plans, what needs a person first."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.find_plans import find_plans


@dataclass(frozen=True, slots=True)
class Plans:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The list, open ones or all."""
        call = await self.desk.call(request)
        text, all_of_them = request.query_params.get("q", ""), "all" in request.query_params
        found = await find_plans(call, text, open_only=not all_of_them)
        return await self.desk.page(request, "plans", plans=found)
