"""A page that leads on to one of ours.

Whoever comes from another site brings no session with them, not even where one is led on from
there. From this page on, they do.
"""

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.back import safe_return_path
from waybook.transport.web.dashboard.frame import render_template


def redirect_page(request: Request, then: str) -> Response:
    """On to an address of ours."""
    return render_template(request, "going_on", {"then": safe_return_path(then, "/")})


def requested_path(request: Request) -> str:
    """What this request asks for, to be led on to; what only acts leads to the first page."""
    if request.method != "GET":
        return "/"
    path = request.scope.get("raw_path") or b"/"
    query = request.scope.get("query_string", b"")
    return (path + b"?" + query if query else path).decode("latin-1")
