"""Access tokens from an identity provider (issuer): acceptance, and how clients get a token."""

import asyncio
import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from auth_env import at, everything_stored
from database_fixtures import ON_POSTGRES_18
from fake_issuer import FakeIssuer
from integrations.test_issuer import BAD
from org_env import Body, OrgEnv
from sign_in_env import make_team, serve_team
from transport.messages import LEGACY, make_request
from transport.page_client import Browser
from waybook.app.accounts.members import disable_user
from waybook.core.decision_context import ReviewPolicy
from waybook.errors import Unauthenticated
from waybook.store.driver.queries import new_uuid
from waybook.transport.http import rate_limits

pytestmark = ON_POSTGRES_18

PLAN = {
    "name": "Tides",
    "researchQuestion": "Why two a day?",
    "steps": [{"stepType": "search", "instructions": "Find out."}],
}
CREATE = make_request("tools/call", name="create_research_plan", arguments=PLAN)
RAW = {name.encode(): value.encode() for name, value in LEGACY.items()}
METADATA = "/.well-known/oauth-protected-resource"


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


async def stored(world: OrgEnv) -> dict[str, str]:
    await world.dispatcher.calls.flush()
    return everything_stored(world.place)


# Tests of the acceptance of tokens.


async def test_invalid_issuer_token_returns_401_without_writes(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "MAX_FAILURES", 1_000)
    kinds: dict[str, Callable[[FakeIssuer], str]] = {
        **{kind: made for kind, made in BAD.items() if kind != "empty"},
        "an ID token": lambda there: there.token(header={"typ": "JWT"}, aud="waybook-pages"),
        "of an unknown org": lambda there: there.token(org="nowhere"),
        "of no org": lambda there: there.token(org=None),
        "of a disabled user": lambda there: there.token(sub="dan-3"),
    }
    async with serve_team(world) as (team, where):
        good = bearer(team.there.token())
        async with httpx2.AsyncClient(base_url=where, trust_env=False) as client:
            await client.post("/mcp", headers={**LEGACY, **good}, content=CREATE)
            dan = bearer(team.there.token(sub="dan-3"))
            await client.post("/mcp", headers={**LEGACY, **dan}, content=CREATE)
            await disable_user(at(world.agent), "dan-3")
            before = await stored(world)
            for kind, made in kinds.items():
                shown = {b"authorization": b"Bearer " + made(team.there).encode()}
                for door in (
                    client.post("/mcp", headers={**RAW, **shown}, content=CREATE),
                    client.get(f"/api/plans/{new_uuid()}/outputs", headers=shown),
                ):
                    reply = await door
                    challenge = reply.headers["www-authenticate"]
                    assert reply.status_code == 401, kind
                    assert f'resource_metadata="{where}{METADATA}/mcp"' in challenge
                    assert 'error="invalid_token"' in challenge, kind
                    assert reply.json() == Unauthenticated().as_json(), "the log has the reason"
            assert await stored(world) == before


async def test_call_with_issuer_token_is_audited_under_the_token_subject(world: OrgEnv) -> None:
    async with (
        serve_team(world) as (team, where),
        httpx2.AsyncClient(base_url=where, trust_env=False) as client,
    ):
        good = bearer(team.there.token(scope="plan:write"))
        made = await client.post("/mcp", headers={**LEGACY, **good}, content=CREATE)
        plan_id = made.json()["result"]["structuredContent"]["planId"]
        (entry,) = await world.entries(world.agent.org_id, plan_id)
        assert entry.actor == "ann-1"
        none = bearer(team.there.token(scope="openid"))
        refused = await client.post("/mcp", headers={**LEGACY, **none}, content=CREATE)
        assert refused.status_code == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        team.there.down = True
        new = bearer(team.there.token(header={"kid": "new"}))
        # The issuer is down, but its keys were fetched recently. The key of this token is not among
        # them, so the server refuses the token without another request to the issuer.
        assert (await client.post("/mcp", headers={**LEGACY, **new})).status_code == 401


async def test_unreachable_issuer_without_cached_key_returns_503(world: OrgEnv) -> None:
    async with make_team(world) as team, team.browser() as client:
        team.there.down = True
        shown = bearer(team.there.token())
        reply = await client.get(f"/api/plans/{new_uuid()}/outputs", headers=shown)
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "UNAVAILABLE"


# Tests of decisions that need a person.


async def test_requesting_agent_cannot_decide_review_but_signed_in_user_can(world: OrgEnv) -> None:
    await world.set_policy(ReviewPolicy.HUMAN)
    async with (
        serve_team(world) as (team, where),
        httpx2.AsyncClient(base_url=where, trust_env=False) as client,
        httpx2.AsyncClient(base_url=where, trust_env=False) as browser,
    ):
        scopes = "plan:write review"
        agent = {**LEGACY, **bearer(team.there.token(scope=scopes))}

        async def call(tool: str, **arguments: object) -> Body:
            request = make_request("tools/call", name=tool, arguments=arguments)
            reply = await client.post("/mcp", headers=agent, content=request)
            payload: Body = json.loads(reply.json()["result"]["content"][0]["text"])
            return payload

        plan = await call("create_research_plan", **PLAN)
        taken = await call("get_next_step", planId=plan["planId"])
        await call("request_user_review", stepId=taken["stepId"], summary="Right?")
        # The second token belongs to the same client, which requested the review, so it must not
        # decide either.
        agent |= bearer(team.there.token(scope=scopes, jti="another"))
        own = await call("submit_user_decision", planId=plan["planId"], decision="approve")
        assert "the requester of a review cannot decide it" in str(own)
        await signed_in_at(browser, where)
        page = await browser.get("/inbox", headers={"accept": "text/html"})
        fields = {
            name: page.text.partition(f'name="{name}" value="')[2].partition('"')[0]
            for name in ("token", "planId", "reviewId")
        }
        decided = await browser.post("/decisions", data={**fields, "decision": "approve"})
        assert decided.status_code == 303
        status = await call("get_plan_status", planId=plan["planId"])
        assert status["status"] == "completed"


async def signed_in_at(browser: Browser, where: str) -> None:
    """Sign in at the issuer, and follow its redirect back to the server."""
    sent = await browser.get("/sign-in/oidc")
    consented = await browser.get(sent.headers["location"])
    back = await browser.get(consented.headers["location"].removeprefix(where))
    assert back.status_code == 200, back.text


# Tests of obtaining a token.


async def test_oauth_resource_metadata_names_the_issuer_and_the_scopes(world: OrgEnv) -> None:
    async with make_team(world) as team, team.browser() as client:
        for path in (METADATA, f"{METADATA}/mcp"):
            metadata = (await client.get(path)).json()
            assert metadata["resource"] == "http://localhost/mcp"
            assert metadata["authorization_servers"] == [team.there.url]
            assert metadata["bearer_methods_supported"] == ["header"]
            assert "plan:write" in metadata["scopes_supported"]
        team.issuer = None
        async with team.browser() as other:
            assert (await other.get(METADATA)).status_code == 404
            reply = await other.post("/mcp", content=b"{}")
            assert "resource_metadata" not in reply.headers["www-authenticate"]


class Memory:
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_oauth_client_discovers_issuer_signs_in_and_calls_tool(world: OrgEnv) -> None:
    came_back: asyncio.Queue[dict[str, list[str]]] = asyncio.Queue()

    async def person(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as browser:
            consented = await browser.get(address)
        await came_back.put(parse_qs(urlsplit(consented.headers["location"]).query))

    async def wait() -> AuthorizationCodeResult:
        parameters = await came_back.get()
        return AuthorizationCodeResult(
            code=parameters["code"][0], state=parameters["state"][0], iss=parameters["iss"][0]
        )

    async with serve_team(world) as (team, where):
        memory = Memory()
        about = OAuthClientMetadata(redirect_uris=["http://localhost:3030/callback"])  # type: ignore[list-item]
        signing = OAuthClientProvider(f"{where}/mcp", about, memory, person, wait)
        async with (
            httpx2.AsyncClient(auth=signing, trust_env=False) as http,
            Client(streamable_http_client(f"{where}/mcp", http_client=http)) as client,
        ):
            made = await client.call_tool("create_research_plan", PLAN)
        assert made.structured_content is not None
        (entry,) = await world.entries(world.agent.org_id, str(made.structured_content["planId"]))
        assert entry.actor == "ann-1"
        assert team.there.redeemed[0]["resource"] == f"{where}/mcp"
        assert memory.tokens is not None
