"""The server finds the address of a client behind a proxy, and clients cannot forge the address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auth_env import authenticated_app, make_token
from org_env import OrgEnv
from transport.page_client import FORM_TOKEN, Browser
from waybook.errors import Misconfigured
from waybook.integrations.config import read_proxies
from waybook.transport.http.authentication import SESSION
from waybook.transport.http.rate_limits import MAX_ATTEMPTS, client_address

PROXY, OTHER_PROXY, STRANGER = "10.0.0.5", "10.1.0.7", "203.0.113.9"
TRUSTED = "10.0.0.5, 10.1.0.0/24, 2001:db8:1::/64"
ADDRESSES = st.ip_addresses().map(str)
OUTSIDE = ADDRESSES.filter(
    lambda one: client_address(read_proxies(TRUSTED), one, ["192.0.2.1"]) == one
)
PROXIES = st.sampled_from([PROXY, OTHER_PROXY, "2001:db8:1::2", "::ffff:10.0.0.5"])
MADE_UP = st.lists(st.one_of(ADDRESSES, st.text(max_size=20), st.just("")), max_size=40).map(
    ", ".join
)


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    return alone


# Tests of the rule that determines the client's address.


@given(OUTSIDE, st.lists(MADE_UP, max_size=3))
def test_forwarded_header_of_an_untrusted_peer_is_ignored(peer: str, written: list[str]) -> None:
    assert same(client_address(read_proxies(TRUSTED), peer, written), peer)


@given(OUTSIDE, MADE_UP, st.lists(PROXIES, min_size=1, max_size=4))
@example(STRANGER, "192.0.2.1, 10.0.0.5", [PROXY])
def test_client_address_is_the_last_address_before_trusted_proxies(
    origin: str, made_up: str, way: list[str]
) -> None:
    *passed, peer = way
    header = ", ".join([made_up, origin, *passed])
    assert same(client_address(read_proxies(TRUSTED), peer, [header]), origin)
    # Some proxies send several headers with one address each.
    assert same(client_address(read_proxies(TRUSTED), peer, [made_up, origin, *passed]), origin)


@given(PROXIES, MADE_UP)
def test_client_address_without_trusted_proxies_is_the_peer(peer: str, written: str) -> None:
    assert same(client_address(read_proxies(""), peer, [written]), peer)


def same(address: str, other: str) -> bool:
    return client_address(read_proxies(""), address, ()) == client_address(
        read_proxies(""), other, ()
    )


@pytest.mark.parametrize(
    ("header", "counts"),
    [
        ("", PROXY),
        ("unknown", PROXY),
        ("203.0.113.9, _hidden", PROXY),
        ("203.0.113.9:51000", STRANGER),
        ("10.1.0.7", OTHER_PROXY),
        ("[2001:db8:9::1]:443", "2001:db8:9::1"),
    ],
)
def test_forwarded_header_is_read_from_the_right_until_an_unusable_entry(
    header: str, counts: str
) -> None:
    assert client_address(read_proxies(TRUSTED), PROXY, [header]) == counts


def test_invalid_address_in_the_trusted_proxies_setting_is_refused() -> None:
    for text in ("proxy.example.org", "10.0.0.0/99", "10.0.0.1/8", "10.0.0.1 10.0.0.2", "*"):
        with pytest.raises(Misconfigured, match="trusted_proxies"):
            read_proxies(text)


# Tests of client addresses over HTTP.


@asynccontextmanager
async def open_browser(world: OrgEnv, peer: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client whose requests come from the address `peer`."""
    app = authenticated_app(world, trusted_proxies=TRUSTED)
    transport = httpx2.ASGITransport(app, client=(peer, 1234))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def sign_in(browser: Browser, secret: str, headers: dict[str, str]) -> httpx2.Response:
    match = FORM_TOKEN.search((await browser.get("/sign-in", headers=headers)).text)
    assert match
    return await browser.post("/sign-in", data={"token": match[1], "key": secret}, headers=headers)


async def test_login_throttle_behind_a_proxy_blocks_only_the_guessing_client(world: OrgEnv) -> None:
    token = await make_token(world.agent)
    async with open_browser(world, PROXY) as browser:
        for number in range(MAX_ATTEMPTS):
            guessed = {"x-forwarded-for": f"192.0.2.{number}, {STRANGER}"}
            assert (await sign_in(browser, "wb_wrong", guessed)).status_code == 403
        again = {"x-forwarded-for": f"198.51.100.1, {STRANGER}"}
        assert (await sign_in(browser, token.secret, again)).status_code == 429
        headers = {"x-forwarded-for": "198.51.100.1"}
        assert (await sign_in(browser, token.secret, headers)).status_code == 303


async def test_untrusted_forwarded_headers_do_not_bypass_login_throttle(world: OrgEnv) -> None:
    token = await make_token(world.agent)
    async with open_browser(world, STRANGER) as browser:
        for number in range(MAX_ATTEMPTS):
            guessed = {"x-forwarded-for": f"192.0.2.{number}", "forwarded": f"for=192.0.2.{number}"}
            assert (await sign_in(browser, "wb_wrong", guessed)).status_code == 403
        fresh = {"x-forwarded-for": "198.51.100.1", "x-real-ip": "198.51.100.1"}
        assert (await sign_in(browser, token.secret, fresh)).status_code == 429


@pytest.mark.parametrize("peer", [PROXY, STRANGER])
async def test_forwarded_headers_do_not_change_host_or_scheme(world: OrgEnv, peer: str) -> None:
    token = await make_token(world.agent)
    headers = {
        "x-forwarded-for": "198.51.100.1",
        "x-forwarded-host": "plans.example.org",
        "x-forwarded-proto": "https",
        "forwarded": "for=198.51.100.1;host=plans.example.org;proto=https",
    }
    async with open_browser(world, peer) as browser:
        elsewhere = {**headers, "host": "plans.example.org"}
        assert (await browser.get("/sign-in", headers=elsewhere)).status_code == 421
        done = await sign_in(browser, token.secret, headers)
        [cookie] = [
            header for header in done.headers.get_list("set-cookie") if header.startswith(SESSION)
        ]
        assert "secure" not in cookie.lower()
        assert done.headers["location"] == "/"
