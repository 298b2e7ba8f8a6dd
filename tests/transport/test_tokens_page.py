"""Page for users and tokens, requested without a browser."""

import re
from dataclasses import replace

import httpx2
import pytest

from auth_env import at, make_token
from org_env import AgentClient, OrgEnv
from transport.page_client import Browser, make_browser, send, visible_text
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.accounts.members import disable_user, list_members
from waybook.core.decision_context import Channel, ReviewPolicy, Scope, expand_scopes
from waybook.errors import Unauthenticated
from waybook.settings import LoadedSettings, Settings

SECRET = re.compile(r"wb_[A-Za-z0-9]{40}")


async def made(browser: Browser, **fields: object) -> httpx2.Response:
    form = {"act": "create", "user": "ann", "label": "laptop", "days": "90", **fields}
    return await send(browser, "/tokens", **form)  # type: ignore[arg-type]  # lists allowed


async def test_tokens_page_shows_a_new_valid_token_only_once(world: OrgEnv) -> None:
    await make_token(world.agent)
    async with make_browser(world.agent) as browser:
        answer = await made(browser, scope=["plan:write", "review"])
        again = await browser.get("/tokens")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    secret = SECRET.findall(answer.text)[0]
    assert set(SECRET.findall(answer.text)) == {secret}
    assert f'--header "Authorization: Bearer {secret}"' in answer.text
    caller = await authenticate_token(world.dispatcher.services, secret, Channel.MCP)
    assert (caller.user, caller.scopes) == ("ann", expand_scopes([Scope.PLAN_WRITE, Scope.REVIEW]))
    assert SECRET.findall(again.text) == []
    entry = (await world.entries(world.agent.org_id, str(world.agent.org_id)))[-1]
    assert (entry.actor, entry.channel) == ("pat", "dashboard")


async def test_revoking_a_token_on_the_page_asks_for_confirmation(world: OrgEnv) -> None:
    issued = await make_token(world.agent)
    async with make_browser(world.agent) as browser:
        confirmation = await send(browser, "/tokens", act="revoke", id=issued.token.id)
        assert "Revoke permanently?" in visible_text(confirmation.text)
        await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP)
        done = await send(browser, "/tokens", act="revoke", id=issued.token.id, confirmed="yes")
        assert (done.status_code, done.headers["location"]) == (303, "/tokens?done=revoke")
        shown = visible_text((await browser.get("/tokens?done=revoke")).text)
    assert "Token revoked." in shown
    assert "revoked by pat" in shown
    with pytest.raises(Unauthenticated):
        await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP)


async def test_tokens_page_changes_users_and_the_review_policy(world: OrgEnv) -> None:
    async with make_browser(world.agent) as browser:
        await send(browser, "/tokens", act="add_user", name="bob", scope="plan:write")
        await send(browser, "/tokens", act="disable", user="bob")
        assert "Enable" in visible_text((await browser.get("/tokens")).text)
        await send(browser, "/tokens", act="enable", user="bob")
        await send(browser, "/tokens", act="policy", policy="human")
    members = await list_members(at(world.agent))
    assert members.org.review_policy is ReviewPolicy.HUMAN
    [bob] = members.users
    assert (bob.name, bob.disabled_at, bob.created_by) == ("bob", None, "pat")


async def test_tokens_page_changes_user_scopes(world: OrgEnv) -> None:
    issued = await make_token(world.agent)
    async with make_browser(world.agent) as browser:
        fields = {"act": "scopes", "user": "ann", "scope": ["review", "plan:read"]}
        done = await send(browser, "/tokens", **fields)  # type: ignore[arg-type]  # lists allowed
        assert done.headers["location"] == "/tokens?done=scopes"
        shown = visible_text((await browser.get("/tokens?done=scopes")).text)
    assert "Permissions saved." in shown
    caller = await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP)
    assert caller.scopes == {Scope.PLAN_READ}


@pytest.mark.parametrize(
    "fields",
    [
        {"act": "dance"},
        {"act": "create", "user": "ann", "label": " ", "scope": "review"},
        {"act": "create", "user": "ann", "label": "x"},
        {"act": "create", "user": "ann", "label": "x", "scope": "everything"},
        {"act": "create", "user": "ann", "label": "x", "scope": "review", "days": "0"},
        {"act": "create", "user": "ann", "label": "x", "scope": "review", "days": "-1"},
        {"act": "create", "user": "ann", "label": "x", "scope": "review", "days": "99999"},
        {"act": "create", "user": "nobody", "label": "x", "scope": "review"},
        {"act": "create", "user": "dan", "label": "x", "scope": "review"},
        {"act": "revoke", "id": "nonsense", "confirmed": "yes"},
        {"act": "add_user", "name": "ann", "scope": "review"},
        {"act": "add_user", "name": "<b>", "scope": ""},
        {"act": "policy", "policy": "nobody"},
        {"act": "enable", "user": "ann"},
        {"act": "scopes", "user": "ann"},
        {"act": "scopes", "user": "ann", "scope": "everything"},
        {"act": "scopes", "user": "nobody", "scope": "review"},
    ],
    ids=str,
)
async def test_invalid_form_on_the_tokens_page_changes_nothing(
    world: OrgEnv, fields: dict[str, str]
) -> None:
    await make_token(world.agent)
    await make_token(world.agent, "dan")
    await disable_user(at(world.agent), "dan")
    before = await list_members(at(world.agent))
    async with make_browser(world.agent) as browser:
        answer = await send(browser, "/tokens", **fields)
    assert answer.status_code in {400, 403, 404}
    assert 'role="alert"' in answer.text
    assert "<b><b>" not in answer.text
    assert await list_members(at(world.agent)) == before


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.ADMIN])
async def test_tokens_and_health_pages_without_admin_scope_return_403(
    world: OrgEnv, scope: Scope
) -> None:
    issued = await make_token(world.agent)
    holder = AgentClient(
        world.dispatcher, replace(world.agent.caller, scopes=expand_scopes([scope]))
    )
    async with make_browser(holder) as browser:
        for page in ("/tokens", "/health"):
            answer = await browser.get(page, headers={"accept": "text/html"})
            assert answer.status_code == 403
            assert issued.token.label not in answer.text
        for sure in ({}, {"confirmed": "yes"}):
            form = {"act": "revoke", "id": issued.token.id, **sure}
            plan = f"/plans/{(await world.agent.plan())['planId']}/cancel"
            assert (await send(browser, plan, at="/tokens", **form)).status_code == 403
        assert (await browser.get("/")).status_code == 200
    await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP)


async def test_dashboard_pages_return_403_to_a_user_without_scopes(world: OrgEnv) -> None:
    unscoped = AgentClient(world.dispatcher, replace(world.agent.caller, scopes=frozenset()))
    plan = await world.agent.plan()
    async with make_browser(unscoped) as browser:
        for page in ("/", f"/plans/{plan['planId']}", f"/plans/{plan['planId']}/export.json"):
            assert (await browser.get(page)).status_code == 403


@pytest.mark.parametrize("auth", ["none", "required"])
async def test_health_page_hides_settings_if_authentication_is_required(
    world: OrgEnv, auth: str
) -> None:
    settings = Settings(auth=auth)
    async with make_browser(
        world.agent, loaded=LoadedSettings(settings, {"auth": "flag"})
    ) as browser:
        health = await browser.get("/health")
    assert health.status_code == 200
    assert ("Effective settings" in health.text) == (auth == "none")
