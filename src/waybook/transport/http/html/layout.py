"""Page rendering: templates, security headers, static assets, and agent text as safe HTML.

A page consists of parts: the template blocks inside `data-live` elements. `?part=NAME` returns one
of them alone, to update a page that is already open. Assets have content-addressed URLs and are
cached permanently. Agent text is rendered from Markdown, sanitized, and truncated when too long.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from waybook.core.durations import format_age, format_duration
from waybook.core.usage import format_cost
from waybook.dag.diagram.status_marks import symbol_for
from waybook.dag.diagram.svg import style_sheet
from waybook.dag.templates.json_markdown import json_to_markdown
from waybook.dag.templates.rendering import escape_hidden_characters, markdown_to_html
from waybook.json_values import Json

MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
NAMES: Final = ("waybook.css", "htmx.min.js", "waybook.js", "live.js", "inbox.js")
#: Scripts that belong to Waybook, in contrast to third-party scripts. They are minified when they
#: are served.
OWN_SCRIPTS: Final = ("waybook.js", "live.js", "inbox.js")
ASSET_HEADERS: Final = {
    "cache-control": "public, max-age=31536000, immutable",
    # This policy applies to worker scripts, which may connect to this server only.
    "content-security-policy": "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@cache
def read_asset(name: str) -> str:
    """Return the text of a static asset; the style sheet includes the styles of DAG maps."""
    folder = files("waybook.transport.http.html").joinpath("static")
    text = folder.joinpath(name).read_text("utf-8")
    if name == "waybook.css":
        return text + style_sheet()
    return minify(text) if name in OWN_SCRIPTS else text


def minify(script: str) -> str:
    r"""Return a script without leading whitespace and comment lines.

    >>> minify("// Why.\nif (a)\n  b();\n")
    'if (a)\nb();'
    """
    lines = map(str.strip, script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def asset_url(name: str) -> str:
    """Return the content-addressed URL of a static asset, which may be cached permanently."""
    return f"/static/{sha256(read_asset(name).encode()).hexdigest()[:12]}/{name}"


async def serve_asset(request: Request) -> Response:
    """Serve the current version of a static asset, even for a URL of an older version."""
    name = request.path_params["name"]
    if name not in NAMES:
        raise HTTPException(404)
    kind = MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(read_asset(name), headers=ASSET_HEADERS, media_type=kind)


CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

#: Icons that are not status symbols.
ICONS: Final = {"again": "m-5 4h6.5a3.5 3.5 0 0 0 0-7h-5.5m3-3l-3 3 3 3"}


def icon(name: str) -> Markup:
    """Return the icon of a status or of an action."""
    drawn = Markup(
        '<svg class="icon" viewBox="-7 -7 14 14" aria-hidden="true"><path d="{}"/></svg>'
    )
    return drawn.format(f"M0 0{ICONS.get(name) or symbol_for(name).icon}")


def status_badge(name: str, note: str = "", *, word: str = "") -> Markup:
    """Return a status as HTML with icon, label and color; `word` replaces the label."""
    drawn = Markup('<span class="status" data-status="{}">{} {}</span>')
    return drawn.format(name, icon(name), f"{word or symbol_for(name).label}{note and ' '}{note}")


def time_tag(at: datetime | None, now: datetime) -> Markup:
    """Return a relative time as HTML, with the exact time on hover."""
    if at is None:
        return Markup("")
    exact = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(), f"{exact:%Y-%m-%d %H:%M:%S} UTC", format_age(at, now)
    )


#: Functions that every template can call by the name of the function.
TEMPLATE_HELPERS: Final = (
    asset_url,
    icon,
    status_badge,
    time_tag,
    format_duration,
    format_cost,
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
    made.globals.update({helper.__name__: helper for helper in TEMPLATE_HELPERS})
    made.filters["urlquote"] = partial(quote, safe="")
    # A template part that is rendered alone cannot import these macros, so the macros are global.
    parts = vars(made.get_template("parts.html").module)
    made.globals.update({name: part for name, part in parts.items() if name[0] != "_"})
    return made


TEMPLATES: Final = _environment()


def render_template(
    request: Request, name: str, view: Mapping[str, object], *, status_code: int = 200
) -> HTMLResponse:
    """Render a page template, or only the requested part of it."""
    template = TEMPLATES.get_template(f"{name}.html")
    context = {
        "path": request.url.path,
        "query": dict(request.query_params),
        # The signed-in user, if sign-in is enabled.
        "person": getattr(request.state, "person", None),
        **view,
    }
    part = request.query_params.get("part", "")
    text = _part(template, part, context) if part in template.blocks else template.render(context)
    return HTMLResponse(escape_hidden_characters(text), status_code, PAGE_HEADERS)


def _part(template: Template, part: str, context: Mapping[str, object]) -> str:
    return "".join(template.blocks[part](template.new_context(dict(context))))


#: Maximum number of characters, and maximum number of lines, of a text that is shown without being
#: collapsed.
LONG, TALL = 700, 14
#: Maximum number of characters of a text that are shown. The plan's page contains the rest of the
#: text.
MAX_LENGTH = 40_000

_HEADING: Final = re.compile(r"<h[1-6]>(.*?)</h[1-6]>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RichText:
    """Text rendered as HTML for display."""

    html: Markup
    #: True if the text is initially collapsed.
    long: bool
    #: Number of characters of the text that are not shown.
    omitted: int = 0


def to_rich_text(value: Json) -> RichText | None:
    """Return Markdown, or JSON as lists and tables, as HTML; None if the value is empty."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json_to_markdown(value, 4)
    excerpt = text[:MAX_LENGTH]
    # Replace the headings in the text, because they must not become part of the page's outline.
    html = _HEADING.sub(r'<p class="head"><strong>\1</strong></p>', markdown_to_html(excerpt))
    long = len(text) > LONG or text.count("\n") > TALL
    return RichText(Markup(html), long, len(text) - len(excerpt))  # noqa: S704 - it has been sanitised
