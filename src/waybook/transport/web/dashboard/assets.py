"""What pages load beside themselves: one style and a little script, to be kept for ever."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.drawing.svg import style_sheet

KINDS: Final = {"css": "text/css", "js": "text/javascript"}
NAMES: Final = ("waybook.css", "htmx.min.js", "waybook.js")
HEADERS: Final = {
    "cache-control": "public, max-age=31536000, immutable",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@cache
def text_of(name: str) -> str:
    """A file, as it is sent; the style has that of the maps with it."""
    folder = files("waybook.transport.web.dashboard").joinpath("static")
    text = folder.joinpath(name).read_text("utf-8")
    return text + style_sheet() if name == "waybook.css" else text


@cache
def address_of(name: str) -> str:
    """Where it is: another text has another address, so it may be kept for ever."""
    return f"/static/{sha256(text_of(name).encode()).hexdigest()[:12]}/{name}"


async def asset(request: Request) -> Response:
    """The file; whoever has an old page gets the new one."""
    name = request.path_params["name"]
    if name not in NAMES:
        raise HTTPException(404)
    kind = KINDS[name.rpartition(".")[2]]
    return Response(text_of(name), headers=HEADERS, media_type=kind)
