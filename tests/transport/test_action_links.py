"""Links in messages let people decide reviews and give feedback without signing in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from auth_env import authenticated_app, make_token
from fake_endpoint import fake_endpoint
from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.page_client import FORM_TOKEN, send
from waybook.app.accounts.authentication import revoke_action_links
from waybook.app.accounts.members import change_org, disable_user
from waybook.app.queries.inbox import read_review
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.notifications.delivery import ActionLinks
from webhook_env import KEY, TAKEN, WebhookEnv, make_review, make_webhook_env, verified

HTML = {"accept": "text/html"}
LINKS = ActionLinks(key=KEY, reviewer="rita", lifetime=timedelta(days=7), needs_account=True)

Decided = tuple[str | None, str | None]
Make = Callable[[AgentClient], Awaitable[Body]]


@dataclass(frozen=True, slots=True)
class Linked:
    """Webhook message with links to decide or give feedback, and a browser without sign-in."""

    env: WebhookEnv
    #: Reply to the call that caused the message.
    cause: Body
    payload: dict[str, Any]
    client: httpx2.AsyncClient

    def path(self, action: str = "approve") -> str:
        url: str = self.payload["data"]["actions"][action]
        return url.removeprefix("http://127.0.0.1:8750")

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers={**HTML, **headers})

    async def token(self, path: str) -> str:
        (token,) = {*FORM_TOKEN.findall((await self.get(path)).text)}
        return str(token)

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        return await send(self.client, path, **fields)

    async def post_late(self, path: str, token: str, **fields: str) -> httpx2.Response:
        return await self.client.post(path, data={"token": token, **fields}, headers=HTML)

    async def decision(self) -> Decided:
        record = await read_review(self.env.call, self.cause["reviewId"])
        return record.decision, record.decided_by

    async def feedback(self) -> Decided:
        run_id = self.cause["runId"]
        run = (await read_run_detail(self.env.call, run_id, RunInclude.NOTHING)).run
        return run.stages["scope"].feedback, run.stages["scope"].feedback_by

    async def check_audit(self, world: OrgEnv, subject: str, action: str) -> None:
        """Check that the audit names the link through which the decision was made."""
        entries = await world.entries(world.agent.org_id, self.cause[subject])
        (entry,) = [entry for entry in entries if f'"action":"{action}"' in entry.details]
        assert '"decidedAs":"link:' in entry.details
        assert (entry.actor, entry.channel) == ("rita", "dashboard")


@asynccontextmanager
async def linked_review(
    world: OrgEnv, *, may: tuple[Scope, ...] = (Scope.REVIEW,), make: Make = make_review
) -> AsyncIterator[Linked]:
    """Call `make`, and yield the webhook message that this call causes.

    The links in the message act as the user rita, who has the scopes `may`.
    """
    await make_token(world.agent, "rita", may=may, scopes=(Scope.PLAN_READ,))
    async with fake_endpoint(TAKEN) as other, make_webhook_env(world, f"{other.url}/hook") as env:
        env.services = replace(env.services, action_links=LINKS)
        env.agent.dispatcher = ServerDispatcher(env.services, world.dispatcher.calls)
        cause = await make(env.agent)
        await env.deliver()
        payload = verified(other.requests[-1])
        app = authenticated_app(world)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Linked(env, cause, payload, client)


@asynccontextmanager
async def linked_stage(world: OrgEnv) -> AsyncIterator[Linked]:
    """Complete a stage that awaits feedback, and yield the webhook message about it."""

    async def make(agent: AgentClient) -> Body:
        run = await agent.run(models="a")
        await agent.work_off(run)
        return run

    async with linked_review(world, make=make) as linked:
        assert linked.payload["type"] == "run.awaiting_feedback"
        yield linked


# Tests of links to reviews.


async def test_opening_a_review_link_shows_the_result_and_decides_nothing(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        for decision in ("modify", "reject", "skip"):
            path = linked.path().replace("/approve", f"/{decision}")
            assert (await linked.client.head(path, headers=HTML)).status_code == 200, decision
            assert (await linked.get(path)).status_code == 200, decision
        reply = await linked.get(linked.path())
        assert await linked.decision() == (None, None)
    assert "6,650 km" in reply.text
    assert "The Nile" in reply.text
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "same-origin"
    assert "noindex" in reply.headers["x-robots-tag"]


async def test_review_link_records_only_the_first_decision(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        token = await linked.token(linked.path("reject"))
        assert (await linked.post(linked.path())).status_code == 303
        assert "rita approved" in (await linked.get(linked.path())).text
        await linked.check_audit(world, "planId", "decision")
        late = await linked.post_late(linked.path("reject"), token, feedback="No.")
        assert late.status_code == 409
        assert "Already decided by rita" in late.text
        assert "No." in late.text
        assert await linked.decision() == ("approve", "rita")


async def test_review_link_to_request_changes_requires_feedback(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        refused = await linked.post(linked.path("modify"), feedback=" ")
        assert refused.status_code == 400
        assert await linked.decision() == (None, None)
        assert (await linked.post(linked.path("modify"), feedback="Cite.")).status_code == 303
        assert await linked.decision() == ("modify", "rita")


async def test_review_link_of_earlier_attempt_cannot_decide_a_later_review(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        await linked.post(linked.path("modify"), feedback="Cite.")
        agent = linked.env.agent
        step = await agent.call("get_next_step", planId=linked.cause["planId"])
        again = await agent.review(step, summary="Now?")
        assert "Now?" not in (await linked.get(linked.path())).text
        record = await read_review(linked.env.call, again["reviewId"])
        assert record.decision is None


async def test_review_link_returns_410_after_expiry(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        token = await linked.token(linked.path())
        world.clock.advance(days=8)
        for reply in (
            await linked.get(linked.path()),
            await linked.post_late(linked.path(), token),
        ):
            assert reply.status_code == 410
            assert "6,650 km" not in reply.text
        assert await linked.decision() == (None, None)


async def test_review_link_with_wrong_secret_returns_404_then_429_if_repeated(
    world: OrgEnv,
) -> None:
    async with linked_review(world) as linked:
        secret = linked.path().split("/")[2]
        other = secret[:-1] + ("A" if secret[-1] != "A" else "Q")
        for wrong in (other, secret[:-1], secret + "A", "x"):
            assert (await linked.get(f"/act/{wrong}/approve")).status_code == 404, wrong
        assert (await linked.get(f"/act/{secret}/delete")).status_code == 404
        guesses = [f"/act/{number:043d}/approve" for number in range(12)]
        assert [(await linked.get(guess)).status_code for guess in guesses][-1] == 429
        assert await linked.decision() == (None, None)


@pytest.mark.parametrize("is_disabled", [False, True])
async def test_review_link_of_a_user_without_permission_is_refused(
    world: OrgEnv, *, is_disabled: bool
) -> None:
    may = (Scope.REVIEW,) if is_disabled else (Scope.PLAN_READ,)
    async with linked_review(world, may=may) as linked:
        if is_disabled:
            await disable_user(linked.env.call, "rita")
        assert (await linked.post(linked.path())).status_code == 403
        assert await linked.decision() == (None, None)


async def test_agent_cannot_decide_own_review_even_if_review_links_exist(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        await change_org(linked.env.call, policy=ReviewPolicy.HUMAN)
        decision = {"planId": linked.cause["planId"], "decision": "approve"}
        refused = await linked.env.agent.refused("submit_user_decision", **decision)
        assert refused["code"] == "FORBIDDEN"
        assert (await linked.post(linked.path())).status_code == 303
        assert await linked.decision() == ("approve", "rita")


async def test_notification_has_no_links_if_reviewer_is_not_in_org(world: OrgEnv) -> None:
    async with fake_endpoint(TAKEN) as other, make_webhook_env(world, f"{other.url}/hook") as env:
        env.services = replace(env.services, action_links=LINKS)
        env.agent.dispatcher = ServerDispatcher(env.services, world.dispatcher.calls)
        await make_review(env.agent)
        await env.deliver()
        assert "actions" not in verified(other.requests[-1])["data"]


async def test_secret_of_a_review_link_is_never_stored(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        secret = linked.path().split("/")[2]
        (delivery,) = await linked.env.deliveries()
        assert "actions" not in delivery.data
        async with world.database.org_transaction(world.agent.org_id) as tx:
            (rows,) = await tx.commit("select t::text from access_link t")
        assert len(rows) == 1
        assert secret not in str(rows)


async def test_review_link_opened_from_another_site_gets_page_that_reloads(world: OrgEnv) -> None:
    followed = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    async with linked_review(world) as linked:
        reply = await linked.get(linked.path(), **followed)
        assert reply.status_code == 200
        assert f"url={linked.path()}" in reply.text
        assert "set-cookie" not in reply.headers


# Tests of links to give feedback on a stage.


async def test_opening_a_feedback_link_changes_nothing(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        path = linked.path("feedback")
        assert "No documents yet." in (await linked.get(path)).text
        await render_all(linked.env.agent)
        assert (await linked.client.head(path, headers=HTML)).status_code == 200
        reply = await linked.get(path)
        assert await linked.feedback() == (None, None)
    assert reply.status_code == 200
    assert "Rivers: Scope" in reply.text
    assert "Open the 1 document of this stage" in reply.text
    assert "Found" in reply.text
    assert reply.headers["cache-control"] == "no-store"
    assert "noindex" in reply.headers["x-robots-tag"]


async def test_feedback_sent_through_a_link_starts_the_next_stage_once(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        path = linked.path("feedback")
        token = await linked.token(path)
        refused = await linked.post(path, feedback=" ")
        assert (refused.status_code, 'id="feedback-fault"' in refused.text) == (400, True)
        assert await linked.feedback() == (None, None)
        assert (await linked.post(path, feedback="Look at the Nile.")).status_code == 303
        assert (await linked.env.agent.job(linked.cause))["status"] == "job_ready"
        assert "rita gave feedback" in (await linked.get(path)).text
        late = await linked.post_late(path, token, feedback="Another word.")
        assert late.status_code == 409
        assert "Already decided by rita" in late.text
        assert "Another word." in late.text
        assert await linked.feedback() == ("Look at the Nile.", "rita")
        await linked.check_audit(world, "runId", "stage_feedback")


async def test_revoked_feedback_link_returns_410(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        path = linked.path("feedback")
        token = await linked.token(path)
        assert await revoke_action_links(linked.env.call, linked.cause["runId"]) == 1
        assert await revoke_action_links(linked.env.call, None) == 0
        for reply in (
            await linked.get(path),
            await linked.post_late(path, token, feedback="Go on."),
        ):
            assert reply.status_code == 410
            assert "revoked" in reply.text
            assert "Rivers" not in reply.text
        assert await linked.feedback() == (None, None)


async def test_feedback_link_of_canceled_run_reports_the_cancellation(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        path = linked.path("feedback")
        token = await linked.token(path)
        await linked.env.agent.call("cancel_run", runId=linked.cause["runId"], reason="No need.")
        late = await linked.post_late(path, token, feedback="Go on.")
        assert late.status_code == 400
        for reply in (late, await linked.get(path)):
            assert "The run was canceled" in reply.text
            assert "<form" not in reply.text
        assert "Go on." in late.text
        assert await linked.feedback() == (None, None)


async def test_feedback_link_gives_access_to_no_other_page(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        path = linked.path("feedback")
        secret = path.split("/")[2]
        await linked.get(path)
        for other in (
            *(f"/act/{secret}/approve", f"/shared/{secret}", f"/act/{secret}/../../inbox"),
            *(f"/act/{secret[:-1]}/feedback", f"{path}/x"),
        ):
            assert (await linked.get(other)).status_code in {401, 303, 404}, other
        for other in ("/", "/inbox", f"/runs/{linked.cause['runId']}"):
            assert (await linked.get(other)).status_code in {303, 401}, other
        headers = {"authorization": f"Bearer {secret}"}
        assert (await linked.client.post("/mcp", json={}, headers=headers)).status_code == 401
