"""Style sheets and scripts of the pages. The URL of each contains a hash of its content."""

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.http.connection import accepts_gzip, gzip_text, index_headers

_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript"}
_FOLDER: Final = files("waybook.transport.http.html").joinpath("static")
NAMES: Final = sorted(
    file.name for file in _FOLDER.iterdir() if file.name.endswith(tuple(_MEDIA_TYPES))
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
    text = _FOLDER.joinpath(name).read_text("utf-8")
    if name.endswith(".css"):
        return _COMMENT.sub("", text).replace("\n", "")
    if name.endswith(".min.js"):
        return text
    lines = (line for line in map(str.strip, text.splitlines()) if line)
    script = "\n".join(line for line in lines if not line.startswith("//"))
    # In a script, `asset:NAME` becomes the versioned URL of that asset.
    return _ASSET.sub(lambda asset: asset_url(asset[1]), script)


_ASSET: Final = re.compile(r"asset:([\w.]+)")
_COMMENT: Final = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


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
    # A compressing proxy adds the prefix `W/` to the entity tag.
    known = request.headers.get("if-none-match", "").split(",")
    if not {tag, "*"}.isdisjoint(text.strip().removeprefix("W/") for text in known):
        return Response(status_code=304, headers=headers)
    kind = _MEDIA_TYPES[PurePosixPath(name).suffix]
    if not accepts_gzip(index_headers(request.headers.raw)):
        return Response(read_asset(name), headers=headers, media_type=kind)
    headers["content-encoding"] = "gzip"
    return Response(_compressed_asset(name), headers=headers, media_type=kind)
