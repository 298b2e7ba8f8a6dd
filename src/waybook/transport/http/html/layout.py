"""Functions for all pages: URLs, templates, security headers, safe HTML, error pages.

`?part=NAME` returns only one part of a page, to update an open page. The browser sends the version
of its part, and gets only the fragments that changed since then. If the server does not remember
the version, the browser gets the whole part.
"""

import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from waybook.app.queries.agent_names import agent_name
from waybook.app.queries.audit import event_label
from waybook.app.queries.comments import subject_path, written_by
from waybook.app.queries.runs.run_work import state_of_job
from waybook.app.queries.timeline import time_spent
from waybook.core.actions import ACTIONS, action, offered
from waybook.core.durations import format_age, format_duration
from waybook.core.forecasts import rough_duration
from waybook.core.hidden_characters import escape_hidden_in_html
from waybook.core.shown import shown, tone_of, word_of
from waybook.core.usage import format_cost
from waybook.dag.diagram.svg import END_MARK, MARK
from waybook.errors import Forbidden, WaybookError
from waybook.transport.http.connection import SECURITY_HEADERS
from waybook.transport.http.html import charts
from waybook.transport.http.html.assets import asset_url
from waybook.transport.http.responses import (
    answer_error_response,
    http_status,
    retry_after_header,
    write_cookie,
)


def run_step_url(run_id: str, stage: str, key: str) -> str:
    """Return the URL of the page of a run's step.

    `stage` and `key` may contain any character. A slash is escaped as in a JSON pointer, because
    servers decode `%2F` before they match routes.

    >>> run_step_url("r", "a/b", "c d~")
    '/runs/r/steps/a~1b/c%20d~0'
    """
    return f"/runs/{run_id}/steps/{_to_segment(stage)}/{_to_segment(key)}"


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


_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    **SECURITY_HEADERS,
    "cache-control": "no-store",
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
}

#: The marks around fragments contain this random text, so that no stored text can contain a mark.
_NONCE: Final = secrets.token_hex(8)
_MARK: Final = re.compile(rf"<!--{_NONCE}(?:([+~])([\w-]+)|/)-->")
_VERSION_SLOT: Final = f"{_NONCE}-version"
#: Marks in drawings are different, because the process that draws does not have the random text.
_DRAWN_MARK: Final = re.compile(f"{MARK}([\\w-]+){MARK}")

#: In a request, the page version that the browser has. In a response, the new version.
VERSION_HEADER: Final = "waybook-version"
_DIGEST_BYTES: Final = 8
#: Maximum size of all remembered page versions together.
MAX_REMEMBERED_BYTES: Final = 4 * 1024 * 1024

#: Parts of the HTML that change with time, so the hash leaves them out.
_AGE: Final = re.compile(r"(<time\b[^>]*>)[^<]*")
_VOLATILE_ATTRIBUTE: Final = re.compile(r' data-(?:age|centre)="[^"]*"')


def fragment(name: str) -> Markup:
    """Return a mark to put before the element with the id `name`, to make it a fragment."""
    return Markup("<!--{}+{}-->").format(_NONCE, name)


def end_fragment() -> Markup:
    return Markup("<!--{}/-->").format(_NONCE)


def version_slot() -> str:
    """Return a placeholder that is later replaced with the version of the page part."""
    return _VERSION_SLOT


def mark_drawing(svg: str) -> str:
    """Replace the marks in an SVG drawing with the marks that pages use."""
    marked = _DRAWN_MARK.sub(rf"<!--{_NONCE}~\1-->", svg)
    return marked.replace(END_MARK, f"<!--{_NONCE}/-->")


@dataclass(slots=True)
class _Fragment:
    name: str
    is_drawn: bool = False
    pieces: list["str | _Fragment"] = field(default_factory=list)
    digest: bytes = b""

    def html(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.html() for piece in self.pieces)

    def inner(self) -> list["_Fragment"]:
        return [piece for piece in self.pieces if isinstance(piece, _Fragment)]

    def seal(self, volatile: Sequence[str]) -> bytes:
        """Compute and return the hashes of this fragment and of all fragments inside it."""
        text = "".join(p if isinstance(p, str) else f"\0{p.name}\0" for p in self.pieces)
        for value in volatile:
            text = text.replace(value, "")
        text = self.name + "\0" + _VOLATILE_ATTRIBUTE.sub("", _AGE.sub(r"\1", text))
        self.digest = blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()
        return self.digest + b"".join(piece.seal(volatile) for piece in self.inner())

    def changed(self, known: Container[bytes]) -> list["_Fragment"]:
        """Return the changed fragments that are not inside another changed fragment."""
        if self.digest not in known:
            return [self]
        return [fragment for piece in self.inner() for fragment in piece.changed(known)]


class VersionMemory:
    """Remembers the hashes of the fragments of each version of a page part."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def remember(self, hashes: bytes) -> str:
        version = blake2b(hashes, digest_size=_DIGEST_BYTES).hexdigest()
        if version not in self._hashes:
            self._hashes[version] = hashes
            self._bytes += len(hashes)
        self._hashes.move_to_end(version)
        while self._bytes > MAX_REMEMBERED_BYTES:
            _, dropped = self._hashes.popitem(last=False)
            self._bytes -= len(dropped)
        return version

    def hashes_of(self, version: str | None) -> frozenset[bytes]:
        hashes = self._hashes.get(version or "", b"")
        starts = range(0, len(hashes), _DIGEST_BYTES)
        return frozenset(hashes[start : start + _DIGEST_BYTES] for start in starts)


def finish_rendering(
    text: str, memory: VersionMemory, *, volatile: Sequence[str], known_version: str | None
) -> tuple[str, str | None]:
    """Return a page without fragment marks, or the fragments that changed and their version."""
    if _NONCE not in text:
        return text, None
    page = _Fragment("")
    open_fragments, at = [page], 0
    for mark in _MARK.finditer(text):
        open_fragments[-1].pieces.append(text[at : mark.start()])
        at = mark.end()
        if mark[2] is None:
            open_fragments.pop()
            continue
        inner = _Fragment(mark[2], is_drawn=mark[1] == "~")
        open_fragments[-1].pieces.append(inner)
        open_fragments.append(inner)
    page.pieces.append(text[at:])
    for part in page.inner():
        hashes, known = part.seal(volatile), memory.hashes_of(known_version)
        version = memory.remember(hashes)
        if part.digest in known:
            templates = []
            for item in part.changed(known):
                html = f"<svg>{item.html()}</svg>" if item.is_drawn else item.html()
                templates.append(f'<template data-fragment="{item.name}">{html}</template>')
            return "".join(templates), version
        part.pieces = [
            piece.replace(_VERSION_SLOT, version) if isinstance(piece, str) else piece
            for piece in part.pieces
        ]
    return page.html(), None


_TEMPLATE_HELPERS: Final = (
    asset_url,
    offered,
    action,
    shown,
    word_of,
    tone_of,
    state_of_job,
    event_label,
    format_age,
    format_duration,
    format_cost,
    rough_duration,
    time_spent,
    fragment,
    end_fragment,
    version_slot,
    run_step_url,
    run_document_url,
    agent_url,
    agent_name,
    subject_path,
    written_by,
    charts.place_columns,
    charts.place_spans,
)

TEMPLATES: Final = Environment(
    loader=FileSystemLoader(str(files("waybook.transport.http.html").joinpath("templates"))),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals.update({helper.__name__: helper for helper in _TEMPLATE_HELPERS})
TEMPLATES.globals |= {"UTC": UTC, "ACTIONS": ACTIONS, "TONES": charts.TONES, "QUIET": charts.QUIET}
TEMPLATES.filters["n"] = charts.number
TEMPLATES.filters["urlquote"] = partial(quote, safe="")
# Make the macros global, because a page part that is rendered alone cannot import them.
for _name in ("charts.html", "parts.html"):
    _macros = vars(TEMPLATES.get_template(_name).module)
    TEMPLATES.globals.update({name: part for name, part in _macros.items() if name[0] != "_"})
_VERSIONS: Final = VersionMemory()


def render_template(
    request: Request, name: str, view: Mapping[str, object], *, status_code: int = 200
) -> HTMLResponse:
    template = TEMPLATES.get_template(f"{name}.html")
    context = {
        "path": request.url.path,
        "query": dict(request.query_params),
        "person": getattr(request.state, "person", None),
        "theme": theme if (theme := request.cookies.get(THEME_COOKIE)) in THEMES else "",
        **view,
    }
    part = request.query_params.get("part", "")
    is_part = part in template.blocks
    if is_part:
        text = "".join(template.blocks[part](template.new_context(dict(context))))
    else:
        text = template.render(context)
    text, version = finish_rendering(
        text,
        _VERSIONS,
        volatile=[str(view[name]) for name in ("token", "key") if view.get(name)],
        known_version=request.headers.get(VERSION_HEADER) if is_part else None,
    )
    headers = {VERSION_HEADER: version} if version else {}
    shown = escape_hidden_in_html(text)
    return HTMLResponse(shown, status_code, {**PAGE_HEADERS, **headers})


#: Cookie with the theme that a person chose. Without it, the theme follows the system.
THEME_COOKIE: Final = "waybook_theme"
THEMES: Final = ("light", "dark")

COOKIE: Final = "waybook_form"
FIELD: Final = "token"
_TOKEN_BYTES: Final = 32
#: Length limits of a CSRF token.
_MIN_TOKEN_LENGTH: Final = 32
MAX_TOKEN_LENGTH: Final = 64
_MAX_FIELDS: Final = 50
_FORM_TYPE: Final = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    known = request.cookies.get(COOKIE, "")
    return known if _is_valid_token(known) else secrets.token_urlsafe(_TOKEN_BYTES)


def mask_token(token: str) -> str:
    """Return the CSRF token for a form, encoded differently every time.

    Otherwise the size of a compressed page could reveal the token (the BREACH attack).
    """
    secret = token.encode()
    pad = secrets.token_bytes(len(secret))
    return urlsafe_b64encode(pad + _xor(pad, secret)).decode()


def _unmask(text: str) -> bytes:
    """Return the CSRF token in a form field. An invalid field gives bytes that match no token."""
    # Only a masked token is longer than `MAX_TOKEN_LENGTH`. A shorter token was not masked.
    if len(text) <= MAX_TOKEN_LENGTH:
        return text.encode()
    with suppress(ValueError):
        data = urlsafe_b64decode(text.encode())
        return _xor(data[: len(data) // 2], data[len(data) // 2 :])
    return b""


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


async def read_form(request: Request) -> FormData:
    """Check the CSRF token of a form, and return its fields."""
    known = request.cookies.get(COOKIE, "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if _is_valid_token(known) and kind == _FORM_TYPE:
        fields = await request.form(max_files=0, max_fields=_MAX_FIELDS)
        token = fields.get(FIELD)
        if isinstance(token, str) and secrets.compare_digest(_unmask(token), known.encode()):
            return fields
    raise Forbidden("this form is out of date, or is not from this page; reload the page")


def _is_valid_token(token: str) -> bool:
    return _MIN_TOKEN_LENGTH <= len(token) <= MAX_TOKEN_LENGTH and token.isascii()


def render_form(
    request: Request, name: str, view: Mapping[str, object], *, status_code: int = 200
) -> HTMLResponse:
    """Render a page with forms, and set the cookie with their CSRF token."""
    token = csrf_token(request)
    shown = {"token": mask_token(token), **view}
    reply = render_template(request, name, shown, status_code=status_code)
    if request.cookies.get(COOKIE) != token:
        write_cookie(request, reply, COOKIE, token)
    return reply


_OURS: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1999}")


def safe_return_path(address: object, otherwise: str = "/inbox") -> str:
    r"""Return the address if it is a path on this server, otherwise `otherwise`.

    >>> safe_return_path("/plans/1?as=2"), safe_return_path("//elsewhere"), safe_return_path("https://elsewhere")
    ('/plans/1?as=2', '/inbox', '/inbox')
    >>> safe_return_path("/\\elsewhere"), safe_return_path("/a\nb"), safe_return_path(None, "/")
    ('/inbox', '/inbox', '/')
    """
    return address if isinstance(address, str) and _OURS.fullmatch(address) else otherwise


_PROGRAM_PATHS: Final = ("/mcp", "/api", "/healthz", "/readyz", "/metrics", "/static")


def wants_html(request: Request) -> bool:
    path = request.url.path
    of_programs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PROGRAM_PATHS)
    return not of_programs and "text/html" in request.headers.get("accept", "")


def error_page(
    request: Request,
    status_code: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    back: str | None = None,
) -> HTMLResponse:
    status = HTTPStatus(status_code)
    may_help = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status is HTTPStatus.TOO_MANY_REQUESTS
    retried = request.method == "GET" and may_help
    text = message[:1].upper() + message[1:]
    view = {
        "status": int(status),
        "message": text if text.endswith((".", "!", "?")) else f"{text}.",
        "retry_url": str(request.url.replace(scheme="", netloc="")) if retried else None,
        "back": back,
    }
    shown = {"waiting": 0, "now": None, "token": mask_token(csrf_token(request)), "mishap": view}
    reply = render_template(request, "error", shown, status_code=status)
    reply.headers.update(headers or {})
    return reply


def error_reply(request: Request, error: WaybookError) -> Response:
    """Return an error as a page or, for programs, as JSON."""
    if not wants_html(request):
        return answer_error_response(error.as_json())
    headers = retry_after_header(error.details)
    return error_page(request, http_status(error.code), error.message, headers)


def redirect_page(request: Request, then: str) -> Response:
    return render_template(request, "going_on", {"then": safe_return_path(then, "/")})


def requested_path(request: Request) -> str:
    if request.method != "GET":
        return "/"
    path = request.scope.get("raw_path") or b"/"
    query = request.scope.get("query_string", b"")
    return (path + b"?" + query if query else path).decode("latin-1")
