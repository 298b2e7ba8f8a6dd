"""HTML error pages, and the page that restores the session after a link from another site.

A browser that follows a link from another site sends no session cookie. The page makes the browser
request the path again, with the cookie.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from waybook.transport.http.html.forms import csrf_token, mask_token, safe_return_path
from waybook.transport.http.html.layout import render_template

_PROGRAM_PATHS: Final = ("/mcp", "/api", "/healthz", "/readyz", "/metrics", "/static")
_TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "Bad request",
    HTTPStatus.UNAUTHORIZED: "Please sign in",
    HTTPStatus.FORBIDDEN: "You don't have access",
    HTTPStatus.NOT_FOUND: "Page not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "Method not allowed",
    HTTPStatus.CONFLICT: "This has already changed",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Internal error",
    HTTPStatus.SERVICE_UNAVAILABLE: "Database unavailable",
}
_HINTS: Final = {
    HTTPStatus.NOT_FOUND: "Check the URL. You may not have access to this item.",
    HTTPStatus.TOO_MANY_REQUESTS: "Your org sent too many requests. "
    "Nothing was lost; try again in a second.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "See the server log for details. "
    "Acknowledged changes are saved; anything else was rolled back.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Acknowledged changes are saved. Try again in a moment.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorView:
    title: str
    message: str
    hint: str
    retry_url: str | None


def wants_html(request: Request) -> bool:
    path = request.url.path
    of_programs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PROGRAM_PATHS)
    return not of_programs and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, status_code: int, message: str) -> HTMLResponse:
    status = HTTPStatus(status_code)
    may_help = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status is HTTPStatus.TOO_MANY_REQUESTS
    retried = request.method == "GET" and may_help
    text = message[:1].upper() + message[1:]
    view = _ErrorView(
        title=_TITLES.get(status, "Request failed"),
        message=text if text.endswith((".", "!", "?")) else f"{text}.",
        hint=_HINTS.get(status, ""),
        retry_url=str(request.url.replace(scheme="", netloc="")) if retried else None,
    )
    shown = {"waiting": 0, "now": None, "token": mask_token(csrf_token(request)), "mishap": view}
    return render_template(request, "error", shown, status_code=status)


def redirect_page(request: Request, then: str) -> Response:
    return render_template(request, "going_on", {"then": safe_return_path(then, "/")})


def requested_path(request: Request) -> str:
    if request.method != "GET":
        return "/"
    path = request.scope.get("raw_path") or b"/"
    query = request.scope.get("query_string", b"")
    return (path + b"?" + query if query else path).decode("latin-1")
