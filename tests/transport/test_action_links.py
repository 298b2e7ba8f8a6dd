"""Links in review messages open a confirmation page without sign-in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpx2

from fake_endpoint import fake_endpoint
from org_env import Body, OrgEnv
from transport.linked_pages import HTML, LINKS, linked_message
from transport.page_client import send
from waybook.app.accounts.links import revoke_action_links
from waybook.app.accounts.members import change_org, disable_user
from waybook.app.queries.inbox import read_review
from waybook.app.request.request_context import RequestContext
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import ReviewPolicy, Scope
from webhook_env import TAKEN, WebhookEnv, make_review, make_webhook_env, verified


@dataclass
class LinkedReview:
    """A review whose request was sent by webhook, and a reader without a session."""

    env: WebhookEnv
    review: Body
    data: Body
    client: httpx2.AsyncClient

    def path(self, decision: str = "approve") -> str:
        url: str = self.data["actions"][decision]
        return url.removeprefix("http://127.0.0.1:8750")

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers={**HTML, **headers})

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        return await send(self.client, path, **fields)

    async def decision(self) -> tuple[str | None, str | None]:
        record = await read_review(self.env.call, self.review["reviewId"])
        return record.decision, record.decided_by


@asynccontextmanager
async def linked_review(
    world: OrgEnv, *, may: tuple[Scope, ...] = (Scope.REVIEW,)
) -> AsyncIterator[LinkedReview]:
    async with linked_message(world, may, make_review) as sent:
        yield LinkedReview(sent.env, sent.cause, sent.payload["data"], sent.client)


async def test_opening_a_review_link_shows_evidence_and_decides_nothing(world: OrgEnv) -> None:
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


async def test_review_link_records_the_decision_of_the_link_user(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        first = await linked.post(linked.path())
        assert first.status_code == 303
        assert await linked.decision() == ("approve", "rita")
        assert "rita approved" in (await linked.get(linked.path())).text
        entries = await world.entries(world.agent.org_id, linked.review["planId"])
        (entry,) = [entry for entry in entries if '"action":"decision"' in entry.details]
        assert '"decidedAs":"link:' in entry.details
        assert (entry.actor, entry.channel) == ("rita", "dashboard")


async def test_second_post_to_review_link_is_refused_with_first_decision(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        page = await linked.get(linked.path("reject"))
        token = page.text.split('name="token" value="')[1].split('"')[0]
        assert (await linked.post(linked.path())).status_code == 303
        late = await linked.client.post(
            linked.path("reject"), data={"token": token, "feedback": "No."}, headers=HTML
        )
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


async def test_review_link_of_an_earlier_attempt_cannot_decide_next_review(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        await linked.post(linked.path("modify"), feedback="Cite.")
        step = await linked.env.agent.call("get_next_step", planId=linked.review["planId"])
        again = await linked.env.agent.call(
            "request_user_review", stepId=step["stepId"], summary="Now?"
        )
        page = await linked.get(linked.path())
        assert "Now?" not in page.text
        record = await read_review(linked.env.call, again["reviewId"])
        assert record.decision is None


async def test_review_link_returns_410_after_expiry(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        page = await linked.get(linked.path())
        token = page.text.split('name="token" value="')[1].split('"')[0]
        world.clock.advance(days=8)
        for reply in (
            await linked.get(linked.path()),
            await linked.client.post(linked.path(), data={"token": token}, headers=HTML),
        ):
            assert reply.status_code == 410
            assert "6,650 km" not in reply.text
        assert await linked.decision() == (None, None)


async def test_revoked_review_link_returns_410(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        assert await revoke_action_links(linked.env.call, None) == 1
        reply = await linked.get(linked.path())
        assert reply.status_code == 410
        assert "revoked" in reply.text
        assert await revoke_action_links(linked.env.call, None) == 0


async def test_review_link_with_wrong_secret_returns_404_and_then_429(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        secret = linked.path().split("/")[2]
        other = secret[:-1] + ("A" if secret[-1] != "A" else "Q")
        for wrong in (other, secret[:-1], secret + "A", "x"):
            assert (await linked.get(f"/act/{wrong}/approve")).status_code == 404, wrong
        assert (await linked.get(f"/act/{secret}/delete")).status_code == 404
        statuses = [
            (await linked.get(f"/act/{number:043d}/approve")).status_code for number in range(12)
        ]
        assert statuses[-1] == 429
        assert await linked.decision() == (None, None)


async def test_review_link_gives_no_access_to_other_pages(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        secret = linked.path().split("/")[2]
        await linked.get(linked.path())
        plan_id = linked.review["planId"]
        for path in ("/", "/inbox", f"/plans/{plan_id}", f"/act/{secret}/../../inbox"):
            assert (await linked.get(path)).status_code in {303, 401, 404}, path
        reply = await linked.client.post(
            "/mcp", json={}, headers={"authorization": f"Bearer {secret}"}
        )
        assert reply.status_code == 401


async def test_review_link_of_a_user_without_review_scope_is_refused(world: OrgEnv) -> None:
    async with linked_review(world, may=(Scope.PLAN_READ,)) as linked:
        assert (await linked.post(linked.path())).status_code == 403
        assert await linked.decision() == (None, None)


async def test_review_link_of_a_disabled_user_is_refused(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        ctx = RequestContext(services=world.dispatcher.services, caller=world.agent.caller)
        await disable_user(ctx, "rita")
        assert (await linked.post(linked.path())).status_code == 403
        assert await linked.decision() == (None, None)


async def test_agent_cannot_decide_own_review_even_if_review_links_exist(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        ctx = RequestContext(services=world.dispatcher.services, caller=world.agent.caller)
        await change_org(ctx, policy=ReviewPolicy.HUMAN)
        refused = await linked.env.agent.refused(
            "submit_user_decision", planId=linked.review["planId"], decision="approve"
        )
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


async def test_review_link_opened_from_another_site_is_reloaded_before_use(world: OrgEnv) -> None:
    async with linked_review(world) as linked:
        reply = await linked.get(
            linked.path(),
            **{
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            },
        )
        assert reply.status_code == 200
        assert f"url={linked.path()}" in reply.text
        assert "set-cookie" not in reply.headers
