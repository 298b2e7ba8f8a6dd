"""Snapshots of plans: the HTML file, its verification, and links that open a snapshot."""

import re
from dataclasses import replace

import httpx2
import pytest

from auth_env import authenticated_app
from org_env import AgentClient, Body, OrgEnv
from transport.page_client import make_browser, send
from waybook.app.operations.file_verification import verify_file
from waybook.app.operations.sharing import create_snapshot_link, read_shared_plan
from waybook.app.queries.plans.plan_snapshot import read_snapshot_entries, snapshot_file
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Scope
from waybook.errors import InvalidInput

HTML = {"accept": "text/html"}
#: Result with characters that have a meaning in HTML, JSON and Markdown.
RESULT = "The **Nile** is </script><script>alert(1)</script> 6650 km long & wide"


def at(agent: AgentClient) -> RequestContext:
    return RequestContext(services=agent.dispatcher.services, caller=agent.caller)


async def worked_plan(agent: AgentClient) -> Body:
    """Return a plan with a completed step, whose result is `RESULT`, and with a decided review."""
    plan = await agent.plan(3, name="Rivers <of> Africa")
    await agent.submit(await agent.take(plan), RESULT)
    step = await agent.take(plan)
    await agent.review(step, summary="Right?", resultSummary={"km": 6650})
    await agent.decide(plan)
    return plan


async def make_file(agent: AgentClient, plan: Body) -> bytes:
    shared = await read_shared_plan(at(agent), plan["planId"])
    entries = await read_snapshot_entries(at(agent), shared.id, shared.seq)
    return snapshot_file(entries).encode()


def make_visitor(world: OrgEnv) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(authenticated_app(world), raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HTML)


async def test_shared_snapshot_shows_results_without_executing_stored_text(world: OrgEnv) -> None:
    file = (await make_file(world.agent, await worked_plan(world.agent))).decode()
    assert "<strong>Nile</strong>" in file
    assert "Rivers &lt;of&gt; Africa" in file
    assert "<svg" in file
    assert file.count("<script") == 1
    assert "alert(1)</script>" not in file
    assert not re.search(r'(?:src|href)="(?:https?:)?//', file)


async def test_verification_of_a_snapshot_returns_the_last_seal(world: OrgEnv) -> None:
    plan = await worked_plan(world.agent)
    file = await make_file(world.agent, plan)
    shared = await read_shared_plan(at(world.agent), plan["planId"])
    verified = verify_file(file, shared.seal)
    assert (verified.id, verified.seal) == (shared.id, shared.seal)
    assert len(verified.entries) == shared.seq
    with pytest.raises(InvalidInput, match="not the expected one"):
        verify_file(file, "00" * 32)


async def test_verification_rejects_a_snapshot_with_any_byte_changed(world: OrgEnv) -> None:
    file = await make_file(world.agent, await world.agent.plan(1))
    for position in range(0, len(file), max(1, len(file) // 60)):
        changed = bytearray(file)
        changed[position] ^= 1
        with pytest.raises(InvalidInput):
            verify_file(bytes(changed))


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"{}", b"[1]", b"\xff", b"x" * 9])
def test_verification_rejects_a_file_that_is_not_a_snapshot(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="neither a snapshot"):
        verify_file(content)


async def test_snapshot_link_shows_the_plan_as_of_link_creation(world: OrgEnv) -> None:
    plan = await worked_plan(world.agent)
    secret = await create_snapshot_link(at(world.agent), plan["planId"], 7)
    await world.agent.submit(await world.agent.take(plan), "Added later")
    async with make_visitor(world) as visitor:
        shown = await visitor.get(f"/shared/{secret}")
        file = await visitor.get(f"/shared/{secret}/file")
    assert shown.status_code == 200
    assert "<strong>Nile</strong>" in shown.text
    assert "Added later" not in shown.text
    assert "sandbox" in shown.headers["content-security-policy"]
    assert shown.headers["cache-control"] == "no-store"
    assert file.headers["content-disposition"].startswith("attachment")
    verify_file(file.content)


async def test_snapshot_link_gives_access_only_to_the_snapshot(world: OrgEnv) -> None:
    plan, other = await worked_plan(world.agent), await world.agent.plan(1, name="Secret")
    secret = await create_snapshot_link(at(world.agent), plan["planId"], 7)
    async with make_visitor(world) as visitor:
        assert "Secret" not in (await visitor.get(f"/shared/{secret}")).text
        for path in (f"/plans/{other['planId']}", f"/plans/{plan['planId']}", "/"):
            assert (await visitor.get(path)).status_code in {303, 401}, path
        for path in (f"/act/{secret}/approve", f"/shared/{secret[:-1]}", f"/shared/{secret}x"):
            assert (await visitor.get(path)).status_code == 404, path


async def test_snapshot_link_returns_410_after_expiry_or_revocation(world: OrgEnv) -> None:
    plan = await worked_plan(world.agent)
    plan_id = plan["planId"]
    secrets = [await create_snapshot_link(at(world.agent), plan_id, days) for days in (1, 7)]
    async with make_visitor(world) as visitor, make_browser(world.agent) as browser:
        world.clock.advance(days=2)
        assert (await visitor.get(f"/shared/{secrets[0]}")).status_code == 410
        assert (await visitor.get(f"/shared/{secrets[1]}")).status_code == 200
        (link,) = (await read_shared_plan(at(world.agent), plan_id)).links
        page = f"/plans/{plan_id}/share"
        revoked = await send(browser, page, act="revoke", link=link.id)
        assert revoked.status_code == 303
        gone = await visitor.get(f"/shared/{secrets[1]}")
        assert (gone.status_code, "Nile" in gone.text) == (410, False)


async def test_share_page_shows_a_new_snapshot_link_only_once(world: OrgEnv) -> None:
    plan = await worked_plan(world.agent)
    async with make_browser(world.agent) as browser, make_visitor(world) as visitor:
        page = f"/plans/{plan['planId']}/share"
        made = await send(browser, page, act="create", days="7")
        match = re.search(r"/shared/([A-Za-z0-9_-]{43})<", made.text)
        assert match, made.text
        assert (await visitor.get(f"/shared/{match[1]}")).status_code == 200
        again = (await browser.get(page)).text
        assert match[1] not in again
        assert "Revoke link to entry" in again
        refused = await send(browser, page, act="create", days="9999")
        assert refused.status_code == 400
        assert 'value="9999"' in refused.text


async def test_share_page_needs_the_scope_to_change_plans(world: OrgEnv) -> None:
    plan = await worked_plan(world.agent)
    caller = replace(world.agent.caller, scopes=frozenset({Scope.PLAN_READ}))
    reader = AgentClient(world.agent.dispatcher, caller)
    async with make_browser(reader) as browser:
        reply = await send(browser, f"/plans/{plan['planId']}/share", act="create", days="7")
    assert reply.status_code == 403


@pytest.mark.parametrize("is_closed", [False, True])
async def test_plan_page_links_to_the_share_page(world: OrgEnv, *, is_closed: bool) -> None:
    plan = await worked_plan(world.agent)
    if is_closed:
        cancel = [{"action": "cancel_plan", "reason": "Enough."}]
        await world.agent.call("modify_plan", planId=plan["planId"], modifications=cancel)
    async with make_browser(world.agent) as browser:
        page = (await browser.get(f"/plans/{plan['planId']}")).text
        match = re.search(r'href="(/plans/[^"/]+/share)">Share</a>', page)
        assert match, page
        assert "Share" in (await browser.get(match[1])).text
