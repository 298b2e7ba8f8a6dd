"""Limit on failed credentials per client address; recently valid credentials are exempt."""

import asyncio
import contextlib
from contextlib import ExitStack
from typing import ClassVar

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from auth_env import another_token, at, authenticated_app, bearer, make_token
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from waybook.app.accounts.members import revoke_token
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import RateLimited, Unauthenticated, Unavailable
from waybook.transport.http import rate_limits
from waybook.transport.http.app import AllowedHosts, RequestPipeline
from waybook.transport.http.authentication import SESSION, AuthGate
from waybook.transport.http.dashboard.sign_in import SignInPage
from waybook.transport.http.rate_limits import (
    DELAY_SECONDS,
    MAX_ADDRESSES,
    MAX_DELAY_FACTOR,
    MAX_FAILURES,
    MAX_PARALLEL_LOOKUPS,
    MAX_RECENT_SECRETS,
    RECENT_SECONDS,
    REFILL_SECONDS,
    FailedCredentials,
)

HERE, THERE = "203.0.113.9", "198.51.100.7"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> FailedCredentials:
    return FailedCredentials(clock)


def fail(failures: FailedCredentials, shown: str, address: str = HERE) -> None:
    """Look up a credential that does not exist, which counts as a failure."""
    with contextlib.suppress(Unauthenticated), failures.lookup(address, shown):
        raise Unauthenticated


def exhaust(failures: FailedCredentials, address: str = HERE) -> None:
    for number in range(MAX_FAILURES):
        fail(failures, f"guess {number}", address)


def is_refused(failures: FailedCredentials, address: str = HERE, shown: str = "new") -> bool:
    try:
        fail(failures, shown, address)
    except RateLimited:
        return True
    return False


# Tests of the limit on failed credentials.


def test_credential_check_counts_as_failed_until_the_check_ends(
    failures: FailedCredentials,
) -> None:
    with ExitStack() as under_way:
        for number in range(MAX_FAILURES):
            under_way.enter_context(failures.lookup(HERE, f"good {number}"))
        assert is_refused(failures)
    assert not is_refused(failures), "all of them were valid"


def test_parallel_checks_of_a_secret_count_as_one_failure(failures: FailedCredentials) -> None:
    with ExitStack() as under_way:
        for _ in range(3 * MAX_FAILURES):
            under_way.enter_context(failures.lookup(HERE, "good"))
        for number in range(MAX_FAILURES - 1):
            fail(failures, f"guess {number}")
    assert not is_refused(failures)


def test_too_many_parallel_checks_of_a_secret_are_refused(failures: FailedCredentials) -> None:
    exhausting = range(MAX_FAILURES + MAX_PARALLEL_LOOKUPS - 1)
    with ExitStack() as under_way:
        for _ in exhausting:
            under_way.enter_context(failures.lookup(HERE, "guess"))
        with pytest.raises(RateLimited):
            under_way.enter_context(failures.lookup(HERE, "guess"))


async def test_many_parallel_calls_with_the_same_valid_secret_are_accepted(
    failures: FailedCredentials,
) -> None:
    """The server has just started, so it has not cached this secret."""
    answered, agents = asyncio.Event(), 3 * MAX_PARALLEL_LOOKUPS

    async def call() -> None:
        await failures.wait_for_lookup("good")
        with failures.lookup(HERE, "good"):
            await answered.wait()

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as calls:
        for _ in range(agents):
            calls.create_task(call())
        await asyncio.sleep(0)
        answered.set()
    assert not is_refused(failures)


async def test_too_many_parallel_checks_of_an_invalid_secret_are_refused(
    failures: FailedCredentials,
) -> None:
    async def call() -> None:
        await failures.wait_for_lookup("bad")
        with contextlib.suppress(Unauthenticated), failures.lookup(HERE, "bad"):
            await asyncio.sleep(0)
            raise Unauthenticated

    calls = [call() for _ in range((MAX_FAILURES + 2) * MAX_PARALLEL_LOOKUPS)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    limited = [outcome for outcome in outcomes if isinstance(outcome, RateLimited)]
    assert len(limited) >= 2 * MAX_PARALLEL_LOOKUPS
    assert is_refused(failures)


def test_credential_check_during_a_database_outage_is_not_a_failure(
    failures: FailedCredentials,
) -> None:
    for _ in range(3 * MAX_FAILURES):
        with pytest.raises(Unavailable), failures.lookup(HERE, "not found out"):
            raise Unavailable
    assert not is_refused(failures)


def test_rate_limited_address_may_try_a_single_secret_per_interval(
    failures: FailedCredentials, clock: Clock
) -> None:
    exhaust(failures)
    clock.now += REFILL_SECONDS
    assert not is_refused(failures)
    assert is_refused(failures)


def test_recently_valid_secret_is_accepted_from_a_rate_limited_address(
    failures: FailedCredentials, clock: Clock
) -> None:
    with failures.lookup(HERE, "good"):
        pass
    exhaust(failures)
    with failures.lookup(HERE, "good"):
        pass
    clock.now += RECENT_SECONDS
    exhaust(failures)
    assert is_refused(failures, shown="good")


def test_recently_valid_secret_that_fails_repeatedly_is_rate_limited(
    failures: FailedCredentials,
) -> None:
    failures.exempt("revoked")
    assert [is_refused(failures, shown="revoked") for _ in range(MAX_FAILURES + 1)] == [
        *MAX_FAILURES * [False],
        True,
    ]


def test_ipv6_addresses_with_a_common_prefix_share_a_limit(failures: FailedCredentials) -> None:
    exhaust(failures, "2001:db8::1")
    assert is_refused(failures, "2001:db8::ffff:2")
    assert not is_refused(failures, "2001:db8:0:1::1")


def test_numbers_of_cached_addresses_and_secrets_are_limited(failures: FailedCredentials) -> None:
    for number in range(MAX_ADDRESSES + 10):
        fail(failures, "guess", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    for number in range(MAX_RECENT_SECRETS + 10):
        failures.exempt(f"good {number}")
    assert len(failures._full_at) == MAX_ADDRESSES
    assert len(failures._recent) == MAX_RECENT_SECRETS
    assert not failures._pending


async def test_delay_after_failed_credentials_grows_up_to_a_maximum() -> None:
    delays, over = list[float](), asyncio.Event()

    async def pause(seconds: float) -> None:
        delays.append(seconds)
        await over.wait()

    limit = FailedCredentials(pause=pause)
    async with asyncio.TaskGroup() as group:
        for _ in range(40 * MAX_DELAY_FACTOR):
            group.create_task(limit.delay(HERE))
        asyncio.get_running_loop().call_soon(over.set)
    assert delays[0] == DELAY_SECONDS
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_SECONDS * MAX_DELAY_FACTOR
    assert not limit._delays.total()


# Tests of failed credentials in HTTP requests, which `AuthGate` checks.


class CountedLookups:
    def __init__(self) -> None:
        self.secrets: list[str] = []

    async def __call__(self, secret: str, _: Channel) -> Caller:
        self.secrets.append(secret)
        raise Unauthenticated

    async def browser(self, _: object) -> Caller | None:
        self.secrets.append("a session")
        return None


async def nothing(_: Scope, __: Receive, ___: Send) -> None:
    raise AssertionError("an unknown caller was admitted")


def behind(gate: AuthGate) -> RequestPipeline:
    return RequestPipeline(app=nothing, hosts=AllowedHosts(), gate=gate)


async def no_pause(_: float) -> None:
    pass


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/mcp", {"authorization": "Bearer wb_guess"}),
        ("/api/map", {"authorization": "Bearer eyJhbGciOi.e30.c2ln"}),
        ("/plans", {"cookie": f"{SESSION}=guess", "accept": "text/html"}),
    ],
)
async def test_too_many_failed_credentials_return_429_without_database_lookup(
    path: str, headers: dict[str, str]
) -> None:
    lookups = CountedLookups()
    gate = AuthGate(
        bearer=lookups, browser=lookups.browser, failures=FailedCredentials(pause=no_pause)
    )
    transport = httpx2.ASGITransport(behind(gate), client=(HERE, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
        answers = [await visitor.get(path, headers=headers) for _ in range(MAX_FAILURES + 5)]
    assert len(lookups.secrets) == MAX_FAILURES
    assert {answer.status_code for answer in answers[:MAX_FAILURES]} == {401}
    assert {answer.status_code for answer in answers[MAX_FAILURES:]} == {429}
    assert {answer.headers["retry-after"] for answer in answers[MAX_FAILURES:]} == {"1"}


async def test_request_without_a_credential_is_not_counted_as_a_failure() -> None:
    lookups = CountedLookups()
    gate = AuthGate(bearer=lookups, failures=FailedCredentials(pause=no_pause))
    transport = httpx2.ASGITransport(behind(gate), client=(HERE, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
        answers = [await visitor.get("/api/map") for _ in range(2 * MAX_FAILURES)]
    assert {answer.status_code for answer in answers} == {401}


class CountingSignIn(SignInPage):
    lookups: ClassVar[list[str]] = []

    async def signed_in(self, request: Request) -> Caller:
        self.lookups.append(request.url.path)
        return await super().signed_in(request)


async def test_sign_in_page_limits_lookups_of_invalid_session_cookies(world: OrgEnv) -> None:
    pages = CountingSignIn(services=world.dispatcher.services, base_url="http://localhost")
    transport = httpx2.ASGITransport(Starlette(routes=pages.routes()), client=(HERE, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
        for number in range(MAX_FAILURES + 5):
            shown = {"cookie": f"{SESSION}={number:043}", "accept": "text/html"}
            assert (await visitor.get("/sign-in", headers=shown)).status_code == 200
    assert len(pages.lookups) == MAX_FAILURES


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    return alone


async def test_valid_token_from_rate_limited_address_is_accepted_until_revoked(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "DELAY_SECONDS", 0)
    good = await make_token(world.agent)
    unseen = await another_token(world.agent)
    transport = httpx2.ASGITransport(authenticated_app(world), client=(HERE, 1))
    elsewhere = httpx2.ASGITransport(transport.app, client=(THERE, 1))
    async with (
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as visitor,
        httpx2.AsyncClient(transport=elsewhere, base_url="http://localhost") as other,
    ):

        async def status(client: httpx2.AsyncClient, headers: dict[str, str]) -> int:
            return (await client.get("/api/openapi.json", headers=headers)).status_code

        assert await status(visitor, bearer(good)) == 200
        guesses = [{"authorization": f"Bearer wb_{n:040}"} for n in range(MAX_FAILURES + 1)]
        assert [await status(visitor, guess) for guess in guesses] == [*MAX_FAILURES * [401], 429]
        assert await status(visitor, bearer(good)) == 200
        assert await status(visitor, bearer(unseen)) == 429
        assert await status(other, bearer(unseen)) == 200, "another address is not affected"
        assert await status(visitor, bearer(unseen)) == 200, "it is known to be valid now"
        await revoke_token(at(world.agent), good.token.id)
        assert await status(visitor, bearer(good)) == 401, "revocation counts at once"
        assert await status(visitor, bearer(good)) == 429
