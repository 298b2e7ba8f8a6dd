"""Web sessions of returning browsers: renewal, and Secure cookies behind a TLS proxy."""

from http.cookies import SimpleCookie

import pytest
from starlette.requests import Request

from auth_env import make_token
from org_env import OrgEnv
from sign_in_env import make_team
from waybook.app.accounts.authentication import start_by_token
from waybook.core.decision_context import Scope
from waybook.transport.http.browser_session import SESSION
from waybook.transport.http.dashboard.sign_in import SignInPage


def make_request(path: str, secret: str) -> Request:
    """Return a browser's request for this page, with the cookie of this web session."""
    headers = [(b"host", b"localhost"), (b"cookie", f"{SESSION}={secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    return Request({**scope, "scheme": "http", "server": ("localhost", 80)})


@pytest.mark.parametrize(("path", "lives"), [("/live", False), ("/inbox", True)])
async def test_live_stream_request_does_not_extend_web_session(
    world: OrgEnv, path: str, *, lives: bool
) -> None:
    issued = await make_token(world.agent, scopes=(Scope.PLAN_READ,))
    started = await start_by_token(world.dispatcher.services, issued.secret)
    door = SignInPage(services=world.dispatcher.services, base_url="http://localhost")
    world.clock.advance(hours=5)
    assert await door.browser(make_request(path, started.secret)) is not None
    world.clock.advance(hours=5)
    assert (await door.browser(make_request("/inbox", started.secret)) is not None) == lives


@pytest.mark.parametrize("host", ["plans.example", "PLANS.example"])
async def test_sign_in_cookie_is_secure_only_for_public_https_host(
    world: OrgEnv, host: str
) -> None:
    async with (
        make_team(world, public_url="https://plans.example") as team,
        team.browser("http://localhost") as browser,
    ):
        for name, secure in ((host, True), ("localhost", False)):
            page = await browser.get("/sign-in", headers={"host": name, "accept": "text/html"})
            cookies = SimpleCookie(page.headers["set-cookie"])
            assert [bool(cookie["secure"]) for cookie in cookies.values()] == [secure]
