"""Dashboard pages of a test org, fetched without a browser."""

import re
from dataclasses import replace

import httpx2
from starlette.requests import Request

from org_env import AgentClient
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.transport.http.app import build_app
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.mcp.server import build_server

TOKEN = re.compile(r'name="token" value="([^"]+)"')


def make_browser(agent: AgentClient, user: str = "pat") -> httpx2.AsyncClient:
    """Return an HTTP client that keeps cookies, for a user in the agent's org."""

    async def person(_: Request) -> Caller:
        return replace(agent.caller, user=user, channel=Channel.DASHBOARD)

    server = build_server(TOOLS, make_gateway(RecordingDispatcher()))
    pages = dashboard_routes(agent.dispatcher, person)
    app = build_app(server, hosts=AllowedHosts(), ready=always, pages=pages)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


#: Fields that are only on the page that asks for confirmation after the form is sent.
CONFIRMATION_FIELDS = {"confirmed", "key", "step"}


async def send(
    browser: httpx2.AsyncClient, address: str, *, at: str | None = None, **fields: str
) -> httpx2.Response:
    """Submit a form with these fields and the CSRF token of the page at this address.

    The page must have fields of these names, except for those of a confirmation.
    """
    shown = (await browser.get(address)).text
    match = TOKEN.search(shown)
    assert match, shown
    if at is None or f'action="{at}"' in shown:
        named = fields.keys() - CONFIRMATION_FIELDS
        assert [name for name in named if f'name="{name}"' not in shown] == []
    return await browser.post(at or address, data={"token": match[1], **fields})


def visible_text(html: str) -> str:
    """Return the text of a page, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())
