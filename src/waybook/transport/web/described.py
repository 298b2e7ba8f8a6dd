"""What can be asked under /api, described for programs: `openapi.json`, as it stands."""

from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

FILE: Final = "openapi.json"


def load_openapi() -> bytes:
    """The description, in OpenAPI 3.1."""
    return files("waybook.transport.web").joinpath(FILE).read_bytes()


async def serve_openapi(_: Request) -> Response:
    """Hand it out."""
    return Response(load_openapi(), media_type="application/json")
