"""Dashboard pages fetched without a browser: signed-in user, forms, and visible text."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from html import unescape

import httpx2
from starlette.requests import Request

from org_env import AgentClient
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.app.request.caller import Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.settings import LoadedSettings
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.app import build_app
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.request_checks import COOKIE, AllowedHosts
from waybook.transport.http.requests import ReadApi
from waybook.transport.mcp.server import build_server

TOKEN = "t" * 43


@asynccontextmanager
async def make_reader(
    agent: AgentClient, loaded: LoadedSettings | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client for a user of this agent's org that does not follow redirects."""

    async def dispatcher() -> ServerDispatcher:
        return agent.dispatcher

    async def person(_: Request | None) -> Caller:
        return replace(agent.caller, user="pat", channel=Channel.DASHBOARD)

    app = build_app(
        build_server(TOOLS, make_gateway(RecordingDispatcher())),
        hosts=AllowedHosts(),
        ready=always,
        reading=ReadApi(ToolGateway(dispatcher, person)),
        pages=dashboard_routes(agent.dispatcher, person, loaded),
    )
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://localhost", cookies={COOKIE: TOKEN}
    ) as client:
        yield client


def visible_text(page: httpx2.Response) -> str:
    """Return the visible text of a page, without markup and with whitespace collapsed."""
    body = page.text.partition("<main")[2]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())
