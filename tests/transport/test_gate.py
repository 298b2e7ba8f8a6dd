"""Authentication: every kind of invalid token is refused on every channel."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import httpx2
import pytest

from auth_env import another_token, at, bearer, everything_stored, make_token, open_visitor, served
from database_fixtures import ON_POSTGRES_18
from org_env import OrgEnv
from transport.messages import LEGACY, make_request
from waybook.app.accounts.members import IssuedToken, disable_user, revoke_token
from waybook.core.decision_context import Scope
from waybook.transport.http import rate_limits

pytestmark = ON_POSTGRES_18

PLAN = {
    "name": "Tides",
    "researchQuestion": "Why two a day?",
    "steps": [{"stepType": "search", "instructions": "Find out."}],
}
CREATE = make_request("tools/call", name="create_research_plan", arguments=PLAN)
#: For each channel, a request that would change or show data if the server accepted it.
CHANNELS = {
    "a call over MCP": ("POST", "/mcp", LEGACY, CREATE),
    "a list over MCP": ("POST", "/mcp/", LEGACY, make_request("tools/list")),
    "what is read": ("GET", "/api/plans/PLAN/outputs", {}, None),
    "a snapshot": ("POST", "/api/map", {}, b"{}"),
    "nothing at all": ("GET", "/api/no-such-thing", {}, None),
    "a page": ("GET", "/plans/PLAN", {"accept": "text/html"}, None),
    "the stream": ("GET", "/live", {"accept": "text/event-stream"}, None),
    "a form": ("POST", "/decisions", {}, b"decision=approve"),
}

Headers = list[tuple[bytes, bytes]]


@dataclass
class Tokens:
    """A valid token, and tokens that are invalid for different reasons."""

    good: IssuedToken
    expired: IssuedToken
    revoked: IssuedToken
    disabled: IssuedToken


def shown(value: str) -> Headers:
    return [(b"authorization", value.encode("latin-1"))]


BAD: dict[str, Callable[[Tokens], Headers]] = {
    "none": lambda _: [],
    "empty": lambda _: shown(""),
    "nothing behind the scheme": lambda _: shown("Bearer"),
    "blanks behind the scheme": lambda _: shown("Bearer   "),
    "no scheme": lambda t: shown(t.good.secret),
    "another scheme": lambda t: shown(f"Basic {t.good.secret}"),
    "a scheme like ours": lambda t: shown(f"Bearer2 {t.good.secret}"),
    "a tab for a blank": lambda t: shown(f"Bearer\t{t.good.secret}"),
    "truncated": lambda t: shown(f"Bearer {t.good.secret[:-1]}"),
    "one character changed": lambda t: shown(f"Bearer {_changed(t.good.secret)}"),
    "other case": lambda t: shown(f"Bearer {t.good.secret.swapcase()}"),
    "longer": lambda t: shown(f"Bearer {t.good.secret}a"),
    "something behind it": lambda t: shown(f"Bearer {t.good.secret} a"),
    "in quotes": lambda t: shown(f'Bearer "{t.good.secret}"'),
    "unknown": lambda _: shown("Bearer wb_" + 40 * "x"),
    "its hash": lambda t: shown(f"Bearer {t.good.token.hash}"),
    "its id": lambda t: shown(f"Bearer {t.good.token.id}"),
    "expired": lambda t: shown(f"Bearer {t.expired.secret}"),
    "revoked": lambda t: shown(f"Bearer {t.revoked.secret}"),
    "of a disabled user": lambda t: shown(f"Bearer {t.disabled.secret}"),
    "two headers": lambda t: 2 * shown(f"Bearer {t.good.secret}"),
    "two headers, one of them good": lambda t: [
        *shown("Bearer wb_" + 40 * "x"),
        *shown(f"Bearer {t.good.secret}"),
    ],
    "two in one header": lambda t: shown(f"Bearer {t.good.secret}, Bearer {t.good.secret}"),
    "not ASCII": lambda _: shown("Bearer wb_" + 40 * "é"),
    "with a NUL": lambda t: shown(f"Bearer {t.good.secret}\x00"),
    "with a quote": lambda t: shown(f"Bearer {t.good.secret[:-1]}'"),
    "a megabyte long": lambda _: shown("Bearer wb_" + 1_000_000 * "a"),
    "by another header": lambda t: [(b"x-authorization", f"Bearer {t.good.secret}".encode())],
    "as a cookie": lambda t: [(b"cookie", f"token={t.good.secret}".encode())],
}
#: Kinds of requests in which the server finds no token. The answer asks for a token, and does not
#: report that a token is invalid.
SHOW_NOTHING = {
    *("none", "empty", "no scheme", "another scheme", "a scheme like ours", "a tab for a blank"),
    *("by another header", "as a cookie"),
}


def _changed(secret: str) -> str:
    return secret[:-1] + ("a" if secret[-1] != "a" else "b")


@pytest.fixture
async def tokens(world: OrgEnv) -> Tokens:
    good = await make_token(world.agent)
    expired, revoked = [await another_token(world.agent, days=days) for days in (1, 90)]
    disabled = await make_token(world.agent, "dan")
    await revoke_token(at(world.agent), revoked.token.id)
    await disable_user(at(world.agent), "dan")
    world.clock.advance(days=2)
    return Tokens(good, expired, revoked, disabled)


async def stored(world: OrgEnv) -> dict[str, str]:
    services = world.dispatcher.services
    await world.dispatcher.calls.flush()
    await services.last_used.flush(services.database)
    return everything_stored(world.place)


async def test_invalid_token_is_rejected_on_every_channel_without_writes(
    world: OrgEnv, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "MAX_FAILURES", 1_000)
    plan = (await world.agent.plan())["planId"]
    before = await stored(world)
    async with open_visitor(world) as visitor:
        for kind, headers in BAD.items():
            for channel, (method, path, more, body) in CHANNELS.items():
                answer = await visitor.request(
                    method,
                    path.replace("PLAN", plan),
                    headers=[
                        *((k.encode(), v.encode()) for k, v in more.items()),
                        *headers(tokens),
                    ],
                    content=body,
                )
                _is_refused(answer, kind, channel)
    assert await stored(world) == before


def _is_refused(answer: httpx2.Response, kind: str, channel: str) -> None:
    if channel == "a page":
        assert answer.status_code == 303, kind
        assert answer.headers["location"].startswith("/sign-in?then=%2Fplans%2F"), kind
        assert not answer.text
        return
    assert answer.status_code == 401, (kind, channel)
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="waybook"'), (kind, channel)
    programs = channel in {
        *("a call over MCP", "a list over MCP", "what is read", "a snapshot", "nothing at all")
    }
    has_error = programs and kind not in SHOW_NOTHING
    assert ('error="invalid_token"' in challenge) == has_error, (kind, channel)
    assert answer.headers["cache-control"] == "no-store", (kind, channel)
    assert "wb_" not in answer.text, (kind, channel)
    assert answer.json()["error"]["code"] == "FORBIDDEN", (kind, channel)


async def test_invalid_tokens_of_all_kinds_get_identical_401_response(
    world: OrgEnv, tokens: Tokens
) -> None:
    async with open_visitor(world) as visitor:
        replies = {
            (answer.text, answer.headers["www-authenticate"])
            for kind in ("unknown", "expired", "revoked", "of a disabled user", "truncated")
            for answer in [await visitor.get("/api/map", headers=BAD[kind](tokens))]
        }
    assert len(replies) == 1


async def test_token_in_query_or_body_does_not_authenticate(world: OrgEnv, tokens: Tokens) -> None:
    secret, plan = tokens.good.secret, (await world.agent.plan())["planId"]
    async with open_visitor(world) as visitor:
        for name in ("access_token", "token", "authorization", "bearer"):
            for path in ("/mcp", f"/api/plans/{plan}/outputs", "/", "/metrics"):
                fields = {name: secret}
                reply = await visitor.get(path, params=fields)
                sent = await visitor.post(path, params=fields, data=fields)
                assert {reply.status_code, sent.status_code} <= {401, 404}
                assert secret not in reply.text + sent.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer  "])
async def test_api_accepts_a_token_with_bearer_in_any_letter_case(
    world: OrgEnv, tokens: Tokens, scheme: str
) -> None:
    plan = (await world.agent.plan())["planId"]
    theirs = world.other_org_plan["planId"]
    headers = {"authorization": f"{scheme} {tokens.good.secret}"}
    async with open_visitor(world) as visitor:
        listed = await visitor.get(f"/api/plans/{plan}/outputs", headers=headers)
        foreign = await visitor.get(f"/api/plans/{theirs}/outputs", headers=headers)
        unknown = await visitor.get("/api/no-such-thing", headers=headers)
    assert listed.json() == {"planId": plan, "outputs": []}
    assert (foreign.status_code, unknown.status_code) == (404, 404)


async def test_valid_token_does_not_authenticate_dashboard_pages(
    world: OrgEnv, tokens: Tokens
) -> None:
    async with open_visitor(world) as visitor:
        answer = await visitor.get("/", headers=bearer(tokens.good))
    assert answer.status_code == 401


async def test_metrics_endpoint_returns_404_without_the_metrics_token(
    world: OrgEnv, tokens: Tokens
) -> None:
    own = "figures-of-all-orgs"
    async with open_visitor(world, metrics_token=own) as visitor:
        good = await visitor.get("/metrics", headers={"authorization": f"Bearer {own}"})
        none = await visitor.get("/metrics")
        other = await visitor.get("/metrics", headers=bearer(tokens.good))
        longer = await visitor.get("/metrics", headers=shown(f"Bearer {own}é"))
    assert good.text.startswith("# HELP waybook_")
    assert {answer.status_code for answer in (none, other, longer)} == {404}
    async with open_visitor(world) as visitor:
        for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer None"}):
            assert (await visitor.get("/metrics", headers=headers)).status_code == 404


async def test_missing_scope_error_names_the_scope(world: OrgEnv) -> None:
    reads = await make_token(world.agent, scopes=(Scope.PLAN_READ,))
    headers = {**LEGACY, **bearer(reads)}
    async with served(world) as address, httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{address}/mcp", headers=headers, content=CREATE)
    assert answer.status_code == 200
    error = json.loads(answer.json()["result"]["content"][0]["text"])["error"]
    assert (error["code"], error["details"]["needed"]) == ("FORBIDDEN", ["plan:write"])


async def test_unauthenticated_request_with_a_large_body_receives_401(world: OrgEnv) -> None:
    body = 1_000_000 * b"x"
    async with served(world) as address, httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(3):  # All three requests use the same connection.
            answer = await client.post(f"{address}/mcp", headers=LEGACY, content=body)
            assert answer.status_code == 401
