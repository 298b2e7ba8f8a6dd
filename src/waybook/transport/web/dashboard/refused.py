"""What stands in the way of a whole page, as a page: no such plan, a form that is out of date."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from waybook.errors import WaybookError
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.mishaps import error_page, wants_html
from waybook.transport.web.reading import answer_error_response, http_status
from waybook.transport.web.replies import retry_after_header

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def with_error_pages(_: PageContext, endpoint: Endpoint) -> Endpoint:
    """The same page; where it refuses, it says so in words, and where to go from here."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except WaybookError as error:
            if not wants_html(request):
                return answer_error_response(error.as_json())
            page = error_page(request, http_status(error.code), error.message)
            page.headers.update(retry_after_header(error.details))
            return page

    return shown
