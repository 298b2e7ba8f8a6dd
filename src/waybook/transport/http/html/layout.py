"""Pages: a template, what it shows, and the headers that keep it harmless.

A page consists of parts, which are the blocks of its template that stand in a `data-live`
element. `?part=NAME` brings one of them alone, for a page that is open already.

What pages load beside themselves: one style and a little script, to be kept for ever.

Texts of agents as people read them: laid out, harmless, and cut where they get too long.
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
NAMES: Final = ("waybook.css", "htmx.min.js", "waybook.js", "live.js")
#: Scripts of our own, written to be read.
OWN_SCRIPTS: Final = ("waybook.js", "live.js")
ASSET_HEADERS: Final = {
    "cache-control": "public, max-age=31536000, immutable",
    # What a script that works beside the pages may do by itself: ask us.
    "content-security-policy": "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@cache
def read_asset(name: str) -> str:
    """A file, as it is sent; the style has that of the maps with it."""
    folder = files("waybook.transport.http.html").joinpath("static")
    text = folder.joinpath(name).read_text("utf-8")
    if name == "waybook.css":
        return text + style_sheet()
    return minify(text) if name in OWN_SCRIPTS else text


def minify(script: str) -> str:
    r"""A script without what is there for its readers: blanks that lead, lines of comment.

    >>> minify("// Why.\nif (a)\n  b();\n")
    'if (a)\nb();'
    """
    lines = map(str.strip, script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def asset_url(name: str) -> str:
    """Where it is: another text has another address, so it may be kept for ever."""
    return f"/static/{sha256(read_asset(name).encode()).hexdigest()[:12]}/{name}"


async def serve_asset(request: Request) -> Response:
    """The file; whoever has an old page gets the new one."""
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

#: Beside those of statuses.
ICONS: Final = {"again": "m-5 4h6.5a3.5 3.5 0 0 0 0-7h-5.5m3-3l-3 3 3 3"}


def icon(name: str) -> Markup:
    """The icon of a status, or of something people do."""
    drawn = Markup(
        '<svg class="icon" viewBox="-7 -7 14 14" aria-hidden="true"><path d="{}"/></svg>'
    )
    return drawn.format(f"M0 0{ICONS.get(name) or symbol_for(name).icon}")


def status_badge(name: str, note: str = "", *, word: str = "") -> Markup:
    """A status as it is shown everywhere: icon, word and colour; `word` is another one for it."""
    drawn = Markup('<span class="status" data-status="{}">{} {}</span>')
    return drawn.format(name, icon(name), f"{word or symbol_for(name).label}{note and ' '}{note}")


def time_tag(at: datetime | None, now: datetime) -> Markup:
    """A time as people say it, the exact one on hover."""
    if at is None:
        return Markup("")
    exact = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(), f"{exact:%Y-%m-%d %H:%M:%S} UTC", format_age(at, now)
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
    made.globals.update(
        asset=asset_url,
        icon=icon,
        status=status_badge,
        moment=time_tag,
        span=format_duration,
        money=format_cost,
    )
    made.filters["address"] = partial(quote, safe="")
    # A part that is brought alone has no head that could import them.
    parts = vars(made.get_template("parts.html").module)
    made.globals.update({name: part for name, part in parts.items() if name[0] != "_"})
    return made


TEMPLATES: Final = _environment()


def render_template(
    request: Request, name: str, view: Mapping[str, object], *, status_code: int = 200
) -> HTMLResponse:
    """A page, or the part of it that is asked for."""
    template = TEMPLATES.get_template(f"{name}.html")
    told = {
        "path": request.url.path,
        "query": dict(request.query_params),
        # Whoever has signed in, where people do.
        "person": getattr(request.state, "person", None),
        **view,
    }
    part = request.query_params.get("part", "")
    text = _part(template, part, told) if part in template.blocks else template.render(told)
    return HTMLResponse(escape_hidden_characters(text), status_code, PAGE_HEADERS)


def _part(template: Template, part: str, told: Mapping[str, object]) -> str:
    return "".join(template.blocks[part](template.new_context(dict(told))))


#: What is longer than this, or has more lines, is folded.
LONG, TALL = 700, 14
#: What is longer than this is cut: the rest is on the plan's page.
MAX_LENGTH = 40_000

_HEADING: Final = re.compile(r"<h[1-6]>(.*?)</h[1-6]>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RichText:
    """A text to be shown."""

    html: Markup
    #: Whether it is better folded.
    long: bool
    #: How many characters are left out.
    omitted: int = 0


def to_rich_text(value: Json) -> RichText | None:
    """A value as people read it: Markdown laid out, JSON as lists and tables; None for nothing."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json_to_markdown(value, 4)
    kept = text[:MAX_LENGTH]
    # Headings of the text are none of the page's own.
    html = _HEADING.sub(r'<p class="head"><strong>\1</strong></p>', markdown_to_html(kept))
    long = len(text) > LONG or text.count("\n") > TALL
    return RichText(Markup(html), long, len(text) - len(kept))  # noqa: S704 - it has been sanitised
