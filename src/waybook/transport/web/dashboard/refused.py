"""What stands in the way of a whole page, as a page: no such plan, a form that is out of date."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import Unavailable, WaybookError
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.frame import page
from waybook.transport.web.reading import status_of

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def with_refusals(desk: Desk, endpoint: Endpoint) -> Endpoint:
    """The same page; where it refuses, it says so in words, and where to go from here."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except WaybookError as fault:
            return await _told(desk, request, fault)

    return shown


async def _told(desk: Desk, request: Request, fault: WaybookError) -> Response:
    status = status_of(fault.code)
    try:
        return await desk.page(request, "refused", status_code=status, fault=fault)
    except Unavailable:
        # Not even what waits can be counted.
        bare = {"waiting": 0, "token": "", "fault": fault}
        return page(request, "refused", bare, status_code=status)
