"""What pages load beside themselves: one style and a little script, to be kept for ever."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.drawing.svg import style_sheet

MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
NAMES: Final = ("waybook.css", "htmx.min.js", "waybook.js", "live.js")
#: Scripts of our own, written to be read.
OWN_SCRIPTS: Final = ("waybook.js", "live.js")
HEADERS: Final = {
    "cache-control": "public, max-age=31536000, immutable",
    # What a script that works beside the pages may do by itself: ask us.
    "content-security-policy": "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@cache
def read_asset(name: str) -> str:
    """A file, as it is sent; the style has that of the maps with it."""
    folder = files("waybook.transport.web.dashboard").joinpath("static")
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
    return Response(read_asset(name), headers=HEADERS, media_type=kind)
