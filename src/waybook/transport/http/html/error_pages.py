"""HTML error pages, and the redirect page that restores a session after a cross-site link.

Programs get the same errors as JSON; the `Accept` header and the path tell them apart, and paths
for programs never answer with a page. A browser that follows a link from another site sends no
session cookie, not even across redirects, but it does so from the redirect page on.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from waybook.transport.http.html.forms import csrf_token, safe_return_path
from waybook.transport.http.html.layout import render_template

#: Path prefixes for programs; all others are pages.
PROGRAM_PATHS: Final = ("/mcp", "/api", "/healthz", "/readyz", "/metrics", "/static")
TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "That cannot be asked",
    HTTPStatus.UNAUTHORIZED: "Who are you?",
    HTTPStatus.FORBIDDEN: "Not this way",
    HTTPStatus.NOT_FOUND: "There is nothing here",
    HTTPStatus.METHOD_NOT_ALLOWED: "That cannot be asked",
    HTTPStatus.CONFLICT: "Not any more",
    HTTPStatus.TOO_MANY_REQUESTS: "Not so fast",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something broke here",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database is out of reach",
}
HINTS: Final = {
    HTTPStatus.NOT_FOUND: "The address may be mistyped, or of something that is not yours.",
    HTTPStatus.TOO_MANY_REQUESTS: "Pages of your org were asked for too often just now. "
    "Nothing is lost; wait a second, and ask again.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "What happened stands in the log of the server. What was "
    "acknowledged is kept; what was not has left no trace.",
    HTTPStatus.SERVICE_UNAVAILABLE: "What was acknowledged is in the database and stays there. "
    "Try again in a moment.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    title: str
    message: str
    hint: str
    #: URL to retry, if a retry may help.
    retry_url: str | None


def wants_html(request: Request) -> bool:
    """Return whether a browser requested a page."""
    path = request.url.path
    of_programs = any(path == one or path.startswith(f"{one}/") for one in PROGRAM_PATHS)
    return not of_programs and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, status_code: int, message: str) -> HTMLResponse:
    """Return the error page; rendering it needs no database."""
    status = HTTPStatus(status_code)
    may_help = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status is HTTPStatus.TOO_MANY_REQUESTS
    retried = request.method == "GET" and may_help
    said = message[:1].upper() + message[1:]
    mishap = ErrorView(
        title=TITLES.get(status, "That did not work"),
        message=said if said.endswith((".", "!", "?")) else f"{said}.",
        hint=HINTS.get(status, ""),
        retry_url=str(request.url.replace(scheme="", netloc="")) if retried else None,
    )
    shown = {"waiting": 0, "now": None, "token": csrf_token(request), "mishap": mishap}
    return render_template(request, "error", shown, status_code=status)


def redirect_page(request: Request, then: str) -> Response:
    """Return a page that navigates to one of our paths."""
    return render_template(request, "going_on", {"then": safe_return_path(then, "/")})


def requested_path(request: Request) -> str:
    """Return the requested path to return to after sign-in; `/` if the method is not GET."""
    if request.method != "GET":
        return "/"
    path = request.scope.get("raw_path") or b"/"
    query = request.scope.get("query_string", b"")
    return (path + b"?" + query if query else path).decode("latin-1")
