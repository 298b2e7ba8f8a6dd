"""A page that leads on to one of ours.

Whoever comes from another site brings no session with them, not even where one is led on from
there. From this page on, they do.
"""

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.back import own_path
from waybook.transport.web.dashboard.frame import page


def going_on(request: Request, then: str) -> Response:
    """On to an address of ours."""
    return page(request, "going_on", {"then": own_path(then, "/")})


def asked_for_here(request: Request) -> str:
    """What this request asks for, to be led on to; what only acts leads to the first page."""
    if request.method != "GET":
        return "/"
    path = request.scope.get("raw_path") or b"/"
    query = request.scope.get("query_string", b"")
    return (path + b"?" + query if query else path).decode("latin-1")
