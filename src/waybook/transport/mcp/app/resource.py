"""The map in the chat: the extension `io.modelcontextprotocol/ui`, and its one page.

A host that knows the extension shows `map.html` beside the answer of certain tools, in a frame
that reaches nothing but the host. The page asks for the drawing with `draw_map`, which the list of
tools keeps from models, and passes a person's decision on; the host carries both.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

import mcp_types as wire

EXTENSION: Final = "io.modelcontextprotocol/ui"
URI: Final = "ui://waybook/map"
MIME_TYPE: Final = "text/html;profile=mcp-app"
#: Where the style of all maps goes.
STYLE_PLACEHOLDER: Final = "/* map.css */"


def read_app() -> wire.ReadResourceResult:
    """The page, as a host reads it; it is the same for everybody."""
    contents = wire.TextResourceContents(
        uri=URI, mime_type=MIME_TYPE, text=page(), _meta={"ui": {"prefersBorder": True}}
    )
    kept = wire.ReadResourceResult(contents=[contents])
    return kept.model_copy(update={"ttl_ms": 300_000, "cache_scope": "public"})


@cache
def page() -> str:
    """The page with the style of the maps in it, as short as it can be told."""
    html = files("waybook.transport.mcp.app").joinpath("map.html").read_text("utf-8")
    style = files("waybook.dag.drawing").joinpath("map.css").read_text("utf-8")
    return "\n".join(_lean(html.replace(STYLE_PLACEHOLDER, style))) + "\n"


def _lean(text: str) -> Iterator[str]:
    """The lines that say something to a browser."""
    for line in text.splitlines():
        said = line.strip()
        if said and not said.startswith(("//", "/*")):
            yield said
