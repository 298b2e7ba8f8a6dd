"""Sign-in and sign-out without a browser: cookies, forms, limits, and redirects."""

import re
from collections.abc import AsyncIterator
from html import unescape
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.requests import Request

from auth_env import another_token, at, make_token
from org_env import Body, OrgEnv
from sign_in_env import Team, make_team
from transport.page_client import FORM_TOKEN, Browser
from waybook.app.accounts.authentication import start_by_token
from waybook.app.accounts.members import IssuedToken, revoke_token
from waybook.core.decision_context import Scope
from waybook.transport.http.authentication import SESSION
from waybook.transport.http.dashboard.sign_in import SignInPage
from waybook.transport.http.rate_limits import (
    MAX_ADDRESSES,
    MAX_ATTEMPTS,
    WINDOW_SECONDS,
    LoginThrottle,
)

PAGE = {"accept": "text/html"}
#: Headers that a browser sends after a click on a link in another site's page.
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    return alone


@pytest.fixture
async def team(world: OrgEnv) -> AsyncIterator[Team]:
    async with make_team(world) as made:
        yield made


@pytest.fixture
async def browser(team: Team) -> AsyncIterator[Browser]:
    async with team.browser() as client:
        client.headers.update(PAGE)
        yield client


@pytest.fixture
async def issued(world: OrgEnv) -> IssuedToken:
    return await make_token(world.agent, scopes=(Scope.PLAN_WRITE, Scope.REVIEW))


async def sign_in(browser: Browser, secret: str, **fields: str) -> httpx2.Response:
    shown = await browser.get("/sign-in")
    match = FORM_TOKEN.search(shown.text)
    assert match, shown.text
    return await browser.post("/sign-in", data={"token": match[1], "key": secret, **fields})


def cookie(reply: httpx2.Response, name: str) -> Body:
    read = SimpleCookie()
    for line in reply.headers.get_list("set-cookie"):
        read.load(line)
    return {**read[name], "value": read[name].value} if name in read else {}


# Tests of sign-in with a token.


async def test_page_requested_before_sign_in_redirects_to_sign_in_and_back(
    browser: Browser, issued: IssuedToken
) -> None:
    led = await browser.get("/plans/1?as=2")
    assert (led.status_code, led.headers["location"]) == (
        303,
        "/sign-in?then=%2Fplans%2F1%3Fas%3D2",
    )
    shown = await browser.get(led.headers["location"])
    assert shown.headers["cache-control"] == "no-store"
    assert 'name="then" value="/plans/1?as=2"' in shown.text
    assert "<script" not in shown.text
    done = await sign_in(browser, issued.secret, then="/plans/1?as=2")
    assert (done.status_code, done.headers["location"]) == (303, "/plans/1?as=2")
    home = await browser.get("/")
    assert home.status_code == 200
    assert "Sign out" in home.text
    assert ">ann<" in home.text
    again = await browser.get("/sign-in?then=/inbox")
    assert (again.status_code, again.headers["location"]) == (303, "/inbox")


@pytest.mark.parametrize(
    "then", ["//elsewhere", "https://elsewhere", "/\\elsewhere", "javascript:1"]
)
async def test_sign_in_redirects_to_local_paths_only(
    browser: Browser, issued: IssuedToken, then: str
) -> None:
    assert (await sign_in(browser, issued.secret, then=then)).headers["location"] == "/"
    reply = await browser.get(f"//elsewhere/{then}", headers=LINK)
    assert "elsewhere" not in reply.headers.get("location", "").partition("then=")[0]


async def test_session_cookie_is_httponly_samesite_strict_and_host_only(
    browser: Browser, issued: IssuedToken
) -> None:
    session_cookie = cookie(await sign_in(browser, issued.secret), "waybook")
    assert len(session_cookie["value"]) == 43
    assert (session_cookie["httponly"], session_cookie["samesite"], session_cookie["path"]) == (
        True,
        "strict",
        "/",
    )
    assert session_cookie["secure"] == ""
    assert session_cookie["domain"] == ""


async def test_session_cookie_over_https_is_secure_with_host_prefix(
    world: OrgEnv, issued: IssuedToken
) -> None:
    async with (
        make_team(world, public_url="https://plans.example") as team,
        team.browser("https://plans.example") as browser,
    ):
        session_cookie = cookie(await sign_in(browser, issued.secret), "__Host-waybook")
        assert (
            session_cookie["httponly"],
            session_cookie["samesite"],
            session_cookie["secure"],
        ) == (True, "strict", True)
        assert (await browser.get("/", headers=PAGE)).status_code == 200


async def test_every_kind_of_invalid_token_gets_the_same_403(
    browser: Browser, world: OrgEnv, issued: IssuedToken
) -> None:
    gone = await another_token(world.agent)
    await revoke_token(at(world.agent), gone.token.id)
    pages = set()
    for secret in ("", "hello", "wb_" + 40 * "x", gone.secret, issued.secret[:-1]):
        refused = await sign_in(browser, secret)
        assert refused.status_code == 403
        assert "waybook=" not in str(refused.headers.get_list("set-cookie"))
        pages.add(re.sub(r'value="[^"]*"', "", refused.text))
    (page,) = pages
    assert "Invalid or expired token" in page
    assert (await browser.get("/")).status_code == 303


async def test_sign_in_with_wrong_form_token_creates_no_web_session(
    browser: Browser, issued: IssuedToken
) -> None:
    """Without the check, a page of another site could sign users in to an attacker's account."""
    for token in ("", "x" * 43):
        refused = await browser.post("/sign-in", data={"token": token, "key": issued.secret})
        assert refused.status_code == 403
    assert (await browser.get("/")).status_code == 303


async def test_second_sign_in_ends_the_old_web_session(
    team: Team, browser: Browser, issued: IssuedToken
) -> None:
    async with team.browser() as thief:
        await sign_in(thief, issued.secret)
        planted = thief.cookies["waybook"]
        browser.cookies.set("waybook", planted, domain="localhost.local", path="/")
        # With the planted cookie of the attacker, the browser is signed in already. The user must
        # still be able to sign in.
        token = FORM_TOKEN.search((await browser.get("/", headers=PAGE)).text)
        assert token
        done = await browser.post("/sign-in", data={"token": token[1], "key": issued.secret})
        assert cookie(done, "waybook")["value"] != planted
        assert (await thief.get("/", headers=PAGE)).status_code == 303


async def test_sign_out_with_form_token_ends_the_web_session(
    team: Team, browser: Browser, issued: IssuedToken
) -> None:
    await sign_in(browser, issued.secret)
    secret = browser.cookies["waybook"]
    home = await browser.get("/")
    await browser.post("/sign-out", data={"token": "x" * 43})
    assert (await browser.get("/")).status_code == 200
    token = FORM_TOKEN.search(home.text)
    assert token
    out = await browser.post("/sign-out", data={"token": token[1]})
    assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
    assert "waybook" not in browser.cookies
    async with team.browser() as other:
        other.cookies.set("waybook", secret)
        assert (await other.get("/", headers=PAGE)).status_code == 303


async def test_session_cookie_gives_access_to_outputs_but_not_mcp(
    browser: Browser, world: OrgEnv, issued: IssuedToken
) -> None:
    plan = await world.agent.plan(1)
    await world.agent.work_through(plan)
    output = await world.agent.call(
        "store_research_output",
        planId=plan["planId"],
        mediaType="text/plain",
        title="T",
        content="x",
    )
    theirs = world.other_org_plan["planId"]
    await sign_in(browser, issued.secret)
    assert (await browser.get(f"/api/outputs/{output['outputId']}")).text == "x"
    assert (await browser.get(f"/plans/{theirs}")).status_code == 404
    assert (await browser.get(f"/api/plans/{theirs}/outputs")).status_code == 404
    assert (await browser.post("/mcp", content=b"{}")).status_code == 401
    assert (await browser.post("/api/map", content=b"{}")).status_code == 401
    both = {"authorization": "Bearer wb_" + 40 * "x"}
    assert (
        await browser.get(f"/api/outputs/{output['outputId']}", headers=both)
    ).status_code == 401


async def test_page_opened_by_cross_site_link_reloads_same_local_path(browser: Browser) -> None:
    led = await browser.get("/inbox?x=1", headers=LINK)
    assert led.status_code == 200
    assert 'content="0;url=/inbox?x=1"' in led.text
    assert (
        await browser.get("/inbox", headers={"sec-fetch-site": "same-origin"})
    ).status_code == 303
    # The HTTP client would take the path `//elsewhere.example/` for the URL of another host, so the
    # URL here contains our host.
    here = f"http://{browser.base_url.netloc.decode()}"
    tricked = await browser.get(f"{here}//elsewhere.example/", headers=LINK)
    assert 'content="0;url=/"' in tricked.text
    assert "elsewhere" not in tricked.text


# Tests of web sessions.


def make_request(path: str, secret: str) -> Request:
    headers = [(b"host", b"localhost"), (b"cookie", f"{SESSION}={secret}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    return Request({**scope, "scheme": "http", "server": ("localhost", 80)})


@pytest.mark.parametrize(("path", "lives"), [("/live", False), ("/inbox", True)])
async def test_live_stream_request_does_not_extend_the_web_session(
    world: OrgEnv, path: str, *, lives: bool
) -> None:
    issued = await make_token(world.agent, scopes=(Scope.PLAN_READ,))
    started = await start_by_token(world.dispatcher.services, issued.secret)
    door = SignInPage(services=world.dispatcher.services, base_url="http://localhost")
    world.clock.advance(hours=5)
    assert await door.browser(make_request(path, started)) is not None
    world.clock.advance(hours=5)
    assert (await door.browser(make_request("/inbox", started)) is not None) == lives


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


# Tests of the limits on sign-in attempts.


async def test_sign_in_returns_429_after_too_many_attempts(
    browser: Browser, issued: IssuedToken
) -> None:
    for _ in range(MAX_ATTEMPTS):
        assert (await sign_in(browser, "wb_wrong")).status_code == 403
    refused = await sign_in(browser, issued.secret)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= WINDOW_SECONDS
    assert "Too many attempts" in refused.text


def test_login_throttle_limits_attempts_per_address() -> None:
    now = [0.0]
    attempts = LoginThrottle(lambda: now[0])
    assert [attempts.retry_after("10.0.0.1") for _ in range(MAX_ATTEMPTS)] == [0] * MAX_ATTEMPTS
    assert attempts.retry_after("10.0.0.1") == WINDOW_SECONDS
    assert attempts.retry_after("10.0.0.2") == 0
    now[0] = WINDOW_SECONDS
    assert attempts.retry_after("10.0.0.1") == 0
    for number in range(2 * MAX_ADDRESSES):
        attempts.retry_after(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(attempts._tried) <= MAX_ADDRESSES


# Tests of sign-in at an identity provider (issuer).


async def sign_in_at_issuer(browser: Browser, then: str = "/inbox") -> httpx2.Response:
    shown = await browser.get("/sign-in", params={"then": then})
    link = re.search(r'href="(/sign-in/oidc[^"]*)"', shown.text)
    assert link, shown.text
    sent = await browser.get(unescape(link[1]))
    assert sent.status_code == 303
    return await browser.get(await back_from(sent.headers["location"]))


async def back_from(address: str) -> str:
    """Return the path and query of the redirect back to the server, after the user's consent."""
    async with httpx2.AsyncClient(trust_env=False) as elsewhere:
        consented = await elsewhere.get(address)
    where = urlsplit(consented.headers["location"])
    return f"{where.path}?{where.query}"


async def test_oidc_sign_in_creates_web_session_and_uses_pkce(team: Team, browser: Browser) -> None:
    team.there.person |= {"email": "ann@example.org", "email_verified": True}
    back = await sign_in_at_issuer(browser)
    assert back.status_code == 200
    assert 'content="0;url=/inbox"' in back.text
    assert cookie(back, "waybook")["samesite"] == "strict"
    assert cookie(back, "waybook_flow")["max-age"] == "0"
    shown = await browser.get("/inbox")
    assert "ann@example.org" in shown.text
    (redeemed,) = team.there.redeemed
    assert redeemed["authorization"].startswith("Basic ")
    assert "client_secret" not in redeemed
    query = parse_qs(urlsplit((await browser.get("/sign-in/oidc")).headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["scope"] == ["openid profile email"]


INVALID_CLAIMS: dict[str, Body] = {
    "for another program": {"aud": "elsewhere"},
    "for another attempt": {"nonce": "made up"},
    "without an attempt": {"nonce": None},
    "for two programs, by another": {"aud": ["waybook-pages", "other"], "azp": "other"},
    "for two programs, by nobody": {"aud": ["waybook-pages", "other"]},
    "of another issuer": {"iss": "https://elsewhere.example"},
    "expired": {"exp": 1},
    "of an unknown org": {"org": "nowhere"},
}


async def test_invalid_claims_in_the_id_token_return_403(team: Team, browser: Browser) -> None:
    let_in = []
    for kind, lie in INVALID_CLAIMS.items():
        team.there.lies = lie
        back = await sign_in_at_issuer(browser)
        if back.status_code != 403 or cookie(back, "waybook"):
            let_in.append(kind)
    assert let_in == []
    assert (await browser.get("/inbox")).status_code == 303


async def test_finishing_a_sign_in_in_another_browser_returns_403(
    team: Team, browser: Browser
) -> None:
    """Without the check, an attacker could sign users in to the attacker's account."""
    sent = await browser.get("/sign-in/oidc")
    back = await back_from(sent.headers["location"])
    async with team.browser() as victim:
        assert (await victim.get(back)).status_code == 403
        await victim.get("/sign-in/oidc")
        assert (await victim.get(back)).status_code == 403
        assert "waybook" not in victim.cookies
    for changed in (f"{back}x", back.replace("iss=", "iss=x"), "/sign-in/callback?error=denied"):
        assert (await browser.get(changed)).status_code == 403
        await browser.get("/sign-in/oidc")
    # The server must not have redeemed any of these codes at the issuer.
    assert team.there.redeemed == []


async def test_sign_in_returns_503_while_the_issuer_is_down(team: Team, browser: Browser) -> None:
    team.there.down = True
    reply = await browser.get("/sign-in/oidc")
    assert reply.status_code == 503
    assert "cannot be reached" in reply.text
    assert (await browser.get("/sign-in")).status_code == 200


async def test_oidc_route_is_missing_without_an_issuer(world: OrgEnv, issued: IssuedToken) -> None:
    async with make_team(world) as team:
        team.issuer = None
        async with team.browser() as browser:
            assert "organisation" not in (await browser.get("/sign-in")).text
            assert (await browser.get("/sign-in/oidc")).status_code == 404
            assert (await sign_in(browser, issued.secret)).status_code == 303
