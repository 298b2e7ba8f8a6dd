"""What stands in the way of a whole page, as a page: no such plan, a form that is out of date."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import WaybookError
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.mishaps import error_page, for_people
from waybook.transport.web.reading import refused, status_of
from waybook.transport.web.replies import retry_header

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def with_refusals(_: Desk, endpoint: Endpoint) -> Endpoint:
    """The same page; where it refuses, it says so in words, and where to go from here."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except WaybookError as fault:
            if not for_people(request):
                return refused(fault.as_json())
            page = error_page(request, status_of(fault.code), fault.message)
            page.headers.update(retry_header(fault.details))
            return page

    return shown
