"""Dashboard pages of a test org, fetched without a browser."""

import re
from html import unescape
from typing import TypeAlias

import httpx2

from org_env import AgentClient
from transport.fake_dispatcher import always, make_server
from transport.full_app import TOKEN, gateway_of
from waybook.core.decision_context import Channel
from waybook.settings import LoadedSettings
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.html.layout import COOKIE
from waybook.transport.http.requests import ReadApi

#: HTTP client that keeps cookies, as a browser does, but runs no JavaScript.
Browser: TypeAlias = httpx2.AsyncClient

FORM_TOKEN = re.compile(r'name="token" value="([^"]+)"')


def make_browser(
    agent: AgentClient, user: str = "pat", loaded: LoadedSettings | None = None
) -> Browser:
    gateway = gateway_of(agent, Channel.DASHBOARD, user)
    app = build_app(
        make_server(),
        hosts=AllowedHosts(),
        ready=always,
        reading=ReadApi(gateway),
        pages=dashboard_routes(agent.dispatcher, gateway.caller, loaded),
    )
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", cookies={COOKIE: TOKEN}
    )


#: Form fields of the page that asks for confirmation, which the page before it does not have.
CONFIRMATION_FIELDS = {"confirmed", "key", "step"}


async def send(
    browser: Browser, address: str, *, at: str | None = None, **fields: str
) -> httpx2.Response:
    """Load the page at `address`, and submit a form with these fields and the page's CSRF token.

    The form is sent to `at`, by default to `address`. If the page contains this form, the form must
    have all these fields, except those in `CONFIRMATION_FIELDS`.
    """
    shown = (await browser.get(address)).text
    match = FORM_TOKEN.search(shown)
    assert match, shown
    if at is None or f'action="{at}"' in shown:
        named = fields.keys() - CONFIRMATION_FIELDS
        assert [name for name in named if f'name="{name}"' not in shown] == []
    return await browser.post(at or address, data={"token": match[1], **fields})


def visible_text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def main_text(page: httpx2.Response) -> str:
    text = visible_text("<" + page.text.partition("<main")[2])
    return " ".join(unescape(text).split())
