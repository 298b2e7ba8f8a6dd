"""Simulated chat client, which shows Waybook's map (an MCP App) with the official library.

The map calls a real server.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from playwright.async_api import FrameLocator, Page
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from missing_programs import NODE_PACKAGES
from node_packages import Unreachable, install
from org_env import OrgEnv
from transport.fake_dispatcher import make_app, serve
from transport.full_app import gateway_of
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

HERE: Final = Path(__file__).parent / "chat"
SCRIPTS: Final = {".js", ".mjs"}
#: HTTP headers of the chat client's pages, which contain code of the official library. This code
#: needs more than Waybook's content security policy allows.
HOST_HEADERS: Final = {
    "content-security-policy": "default-src * 'unsafe-inline' 'unsafe-eval' data: blob:",
    "x-frame-options": "SAMEORIGIN",
}


def packages() -> Path:
    """Return the folder with the library for MCP Apps; skip the test if it cannot be installed."""
    try:
        return install(HERE, "chat") / "node_modules"
    except Unreachable as error:
        NODE_PACKAGES.skip(str(error))


@asynccontextmanager
async def open_chat(world: OrgEnv, user: str, profile: str = "all") -> AsyncIterator[str]:
    package_directory = packages()

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        folder = package_directory if "packages" in request.url.path else HERE
        kind = "text/javascript" if Path(name).suffix in SCRIPTS else None
        return FileResponse(folder / name, headers=HOST_HEADERS, media_type=kind)

    server = build_server(published_tools(), gateway_of(world.agent, user=user), profile=profile)
    pages = [Route("/chat/{name}", file), Route("/packages/{name:path}", file)]
    app = make_app(server, pages=pages)
    async with serve(app) as address:
        yield f"{address}/chat/host.html"


async def call_in_chat(
    page: Page, tool: str, arguments: dict[str, object], theme: str = "light"
) -> tuple[dict[str, Any], FrameLocator]:
    """Let the chat call a tool; return the chat's record of the call, and the frame of the app."""
    await page.wait_for_function("document.title === 'Ready'")
    record = await page.evaluate(
        "([tool, args, theme]) => chat(tool, args, theme)", [tool, arguments, theme]
    )
    return record, page.frame_locator("iframe")
