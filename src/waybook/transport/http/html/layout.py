"""Pages: URLs, templates, security headers, static assets, agent text as safe HTML, errors.

`?part=NAME` returns only one part of a page, to update an open page.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from waybook.core.durations import format_age, format_duration
from waybook.core.short_ids import short_id
from waybook.core.usage import format_cost
from waybook.dag.diagram.status_marks import symbol_for
from waybook.dag.diagram.svg import style_sheet
from waybook.dag.templates.filters import json_to_markdown
from waybook.dag.templates.rendering import escape_hidden_characters, markdown_to_html
from waybook.json_values import Json
from waybook.transport.http.compression import accepts_gzip, gzip_text
from waybook.transport.http.headers import index_headers
from waybook.transport.http.html.forms import csrf_token, mask_token, safe_return_path
from waybook.transport.http.html.fragments import (
    VERSION_HEADER,
    VersionMemory,
    end_fragment,
    finish_rendering,
    fragment,
    version_slot,
)


def run_step_url(run_id: str, stage: str, key: str) -> str:
    """Return the URL of the page of a run's step.

    Slugs and keys may contain any character. A slash is escaped as in a JSON pointer, because
    servers decode `%2F` before they match routes.

    >>> run_step_url("r", "a/b", "c d~")
    '/runs/r/steps/a~1b/c%20d~0'
    """
    return f"/runs/{run_id}/steps/{_to_segment(stage)}/{_to_segment(key)}"


def run_stage_url(run_id: str, stage: str) -> str:
    return f"/runs/{run_id}/stages/{_to_segment(stage)}"


def _to_segment(text: str) -> str:
    return quote(text.replace("~", "~0").replace("/", "~1"), safe="~")


def from_segment(text: str) -> str:
    """Return the slug or key in a segment of a URL from `run_step_url`.

    >>> from_segment("a~1b"), from_segment("c d~0")
    ('a/b', 'c d~')
    """
    return text.replace("~1", "/").replace("~0", "~")


def run_document_url(run_id: str, resource_id: str) -> str:
    return f"/runs/{run_id}/documents/{resource_id}"


def agent_url(name: str, session: str | None = None, **query: str) -> str:
    """Return the URL of an agent's page. An agent is a user and a session.

    >>> agent_url("ann", "chat 7"), agent_url("a/b", day="2030-01-31")
    ('/agents/ann?session=chat+7', '/agents/a~1b?day=2030-01-31')
    """
    named = {"session": session or "", **query}
    text = urlencode({field: value for field, value in named.items() if value})
    return f"/agents/{_to_segment(name)}{text and '?'}{text}"


def session_label(session: str, clients: Sequence[str] = ()) -> str:
    """Return the session of an agent or, without a session, the names of its clients.

    >>> session_label("chat 7", ["cursor"]), session_label("", ["cursor"]), session_label("")
    ('chat 7', 'cursor, no session', 'no session')
    """
    return session or ", ".join((*clients, "no session"))


_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
NAMES: Final = (
    *("waybook.css", "htmx.min.js", "waybook.js", "live.js"),
    *("overview.css", "notify.js", "run.css", "map.js", "inbox.js", "sign_in.css"),
    *("records.css", "search.css", "edit.css", "order.js"),
    # `waybook.js` loads the two files when a user opens the command palette.
    *("palette.js", "palette.css"),
)
_OWN_SCRIPTS: Final = (
    *("waybook.js", "live.js", "notify.js", "map.js", "inbox.js", "palette.js", "order.js"),
)
_MAX_GZIP_LEVEL: Final = 9
_ASSET_HEADERS: Final = {
    "cache-control": "public, max-age=31536000, immutable",
    "content-security-policy": "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@cache
def read_asset(name: str) -> str:
    folder = files("waybook.transport.http.html").joinpath("static")
    text = folder.joinpath(name).read_text("utf-8")
    if name.endswith(".css"):
        return _minify_styles(text + style_sheet() if name == "waybook.css" else text)
    if name not in _OWN_SCRIPTS:
        return text
    # In a script, `asset:NAME` becomes the versioned URL of that asset.
    return _ASSET.sub(lambda asset: asset_url(asset[1]), _minify(text))


_ASSET: Final = re.compile(r"asset:([\w.]+)")
_COMMENT: Final = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


def _minify_styles(styles: str) -> str:
    r"""Return a style sheet without comments and line breaks.

    >>> _minify_styles("/* Why. */\na{b:c}\nd{e:f}\n")
    'a{b:c}d{e:f}'
    """
    return _COMMENT.sub("", styles).replace("\n", "")


def _minify(script: str) -> str:
    r"""Return a script without leading whitespace and comment lines.

    >>> _minify("// Why.\nif (a)\n  b();\n")
    'if (a)\nb();'
    """
    lines = map(str.strip, script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def _asset_version(name: str) -> str:
    return sha256(read_asset(name).encode()).hexdigest()[:12]


@cache
def asset_url(name: str) -> str:
    return f"/static/{_asset_version(name)}/{name}"


@cache
def _compressed_asset(name: str) -> bytes:
    return gzip_text(read_asset(name).encode(), _MAX_GZIP_LEVEL)


async def serve_asset(request: Request) -> Response:
    """Serve the current version of a static asset, even for the URL of an older version."""
    name = request.path_params["name"]
    if name not in NAMES:
        raise HTTPException(404)
    tag = f'"{_asset_version(name)}"'
    headers = {**_ASSET_HEADERS, "etag": tag, "vary": "accept-encoding"}
    if _has_version(request, tag):
        return Response(status_code=304, headers=headers)
    kind = _MEDIA_TYPES[name.rpartition(".")[2]]
    if not accepts_gzip(index_headers(request.headers.raw)):
        return Response(read_asset(name), headers=headers, media_type=kind)
    headers["content-encoding"] = "gzip"
    return Response(_compressed_asset(name), headers=headers, media_type=kind)


def _has_version(request: Request, tag: str) -> bool:
    tags = request.headers.get("if-none-match", "").split(",")
    # A compressing proxy adds the prefix `W/` to the entity tag.
    return any(known.strip().removeprefix("W/") in {tag, "*"} for known in tags)


_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_ICONS: Final = {"again": "m-5 4h6.5a3.5 3.5 0 0 0 0-7h-5.5m3-3l-3 3 3 3"}


def icon(name: str) -> Markup:
    drawn = Markup(
        '<svg class="icon" viewBox="-7 -7 14 14" aria-hidden="true"><path d="{}"/></svg>'
    )
    return drawn.format(f"M0 0{_ICONS.get(name) or symbol_for(name).icon}")


def status_badge(name: str, note: str = "", *, word: str = "") -> Markup:
    drawn = Markup('<span class="status" data-status="{}">{} {}</span>')
    return drawn.format(name, icon(name), f"{word or symbol_for(name).label}{note and ' '}{note}")


def status_mark(name: str) -> Markup:
    mark = symbol_for(name)
    return Markup(
        '<span class="mark" data-status="{}" role="img" aria-label="{}" title="{}">{}</span>'
    ).format(name, mark.label, mark.label, mark.symbol)


_JOB_BADGES: Final = {
    "processing": ("in_progress", "in progress"),
    "retrying": ("pending", "retrying"),
    "waiting": ("pending", "waiting"),
    "retry_loop_failed": ("failed", "failed, no attempts left"),
    "superseded": ("skipped", "superseded"),
}


def job_badge(status: str) -> Markup:
    name, word = _JOB_BADGES.get(status, (status, ""))
    return status_badge(name, word=word)


def time_tag(at: datetime | None, now: datetime) -> Markup:
    """Return a relative time as HTML, with the exact time on hover."""
    return _time(at, now, format_age(at, now)) if at else Markup("")


def elapsed_tag(at: datetime | None, now: datetime) -> Markup:
    """Return the time elapsed since `at` as HTML."""
    attribute = Markup(" data-elapsed")
    return _time(at, now, format_duration(now - at), attribute) if at else Markup("")


def _time(at: datetime, now: datetime, text: str, attribute: Markup | None = None) -> Markup:
    exact = at.astimezone(UTC)
    tag = Markup('<time datetime="{}" data-age="{}"{} title="{}">{}</time>')
    age = round((now - at).total_seconds())
    title = f"{exact:%Y-%m-%d %H:%M:%S} UTC"
    return tag.format(f"{exact:%Y-%m-%dT%H:%M:%SZ}", age, attribute or "", title, text)


_TEMPLATE_HELPERS: Final = (
    asset_url,
    icon,
    status_badge,
    status_mark,
    job_badge,
    time_tag,
    elapsed_tag,
    format_duration,
    format_cost,
    fragment,
    end_fragment,
    version_slot,
    run_stage_url,
    run_step_url,
    run_document_url,
    agent_url,
    session_label,
    short_id,
)


def _environment() -> Environment:
    folder = str(files("waybook.transport.http.html").joinpath("templates"))
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update({helper.__name__: helper for helper in _TEMPLATE_HELPERS})
    made.filters["urlquote"] = partial(quote, safe="")
    # Make the macros global, because a page part that is rendered alone cannot import them.
    parts = vars(made.get_template("parts.html").module)
    made.globals.update({name: part for name, part in parts.items() if name[0] != "_"})
    return made


TEMPLATES: Final = _environment()
_VERSIONS: Final = VersionMemory()


def render_template(
    request: Request, name: str, view: Mapping[str, object], *, status_code: int = 200
) -> HTMLResponse:
    template = TEMPLATES.get_template(f"{name}.html")
    context = {
        "path": request.url.path,
        "query": dict(request.query_params),
        "person": getattr(request.state, "person", None),
        **view,
    }
    part = request.query_params.get("part", "")
    is_part = part in template.blocks
    text = _part(template, part, context) if is_part else template.render(context)
    rendered = finish_rendering(
        text,
        _VERSIONS,
        volatile=[str(view[name]) for name in ("token", "key") if view.get(name)],
        known_version=request.headers.get(VERSION_HEADER) if is_part else None,
    )
    headers = {VERSION_HEADER: rendered.version} if rendered.version else {}
    shown = escape_hidden_characters(rendered.text)
    return HTMLResponse(shown, status_code, {**PAGE_HEADERS, **headers})


def _part(template: Template, part: str, context: Mapping[str, object]) -> str:
    return "".join(template.blocks[part](template.new_context(dict(context))))


LONG, TALL = 700, 14
#: Maximum number of characters of a text that a page shows.
MAX_LENGTH = 40_000

_HEADING: Final = re.compile(r"<h[1-6]>(.*?)</h[1-6]>", re.DOTALL)


_HEADING_TAG: Final = re.compile(r"<(/?)h([1-6])>")


def document_html(markdown: str) -> Markup:
    """Return a document as sanitized HTML, with headings two levels lower."""
    html = markdown_to_html(markdown)
    # The page uses heading levels 1 and 2 itself.
    lower = _HEADING_TAG.sub(lambda tag: f"<{tag[1]}h{min(6, int(tag[2]) + 2)}>", html)
    return Markup(lower)  # noqa: S704 - it has been sanitized


@dataclass(frozen=True, slots=True)
class RichText:
    html: Markup
    long: bool
    omitted: int = 0


def to_rich_text(value: Json) -> RichText | None:
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json_to_markdown(value, 4)
    excerpt = text[:MAX_LENGTH]
    # Headings in the text must not be part of the page's outline.
    html = _HEADING.sub(r'<p class="head"><strong>\1</strong></p>', markdown_to_html(excerpt))
    long = len(text) > LONG or text.count("\n") > TALL
    return RichText(Markup(html), long, len(text) - len(excerpt))  # noqa: S704 - it has been sanitised


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


def wants_html(request: Request) -> bool:
    path = request.url.path
    of_programs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PROGRAM_PATHS)
    return not of_programs and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, status_code: int, message: str) -> HTMLResponse:
    status = HTTPStatus(status_code)
    may_help = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status is HTTPStatus.TOO_MANY_REQUESTS
    retried = request.method == "GET" and may_help
    text = message[:1].upper() + message[1:]
    view = {
        "title": _TITLES.get(status, "Request failed"),
        "message": text if text.endswith((".", "!", "?")) else f"{text}.",
        "hint": _HINTS.get(status, ""),
        "retry_url": str(request.url.replace(scheme="", netloc="")) if retried else None,
    }
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
