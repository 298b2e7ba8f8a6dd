"""Pages: a template, what it shows, and the headers that keep it harmless.

A page consists of parts, which are the blocks of its template that stand in a `data-live`
element. `?part=NAME` brings one of them alone, for a page that is open already.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from waybook.dag.drawing.looks import symbol_for
from waybook.dag.page import escape_hidden_characters
from waybook.record.spans import format_age, format_duration
from waybook.record.usage import format_cost
from waybook.transport.web.dashboard.assets import asset_url

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {
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
    folder = str(files("waybook.transport.web.dashboard").joinpath("templates"))
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
    return HTMLResponse(escape_hidden_characters(text), status_code, HEADERS)


def _part(template: Template, part: str, told: Mapping[str, object]) -> str:
    return "".join(template.blocks[part](template.new_context(dict(told))))
