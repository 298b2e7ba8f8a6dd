"""Links in messages about completed stages: feedback without sign-in, over the application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from org_env import AgentClient, Body, OrgEnv
from transport.linked_pages import HTML, linked_message
from transport.page_client import send
from waybook.app.accounts.links import revoke_action_links
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.background import render_all_orgs
from waybook.core.decision_context import Scope
from webhook_env import WebhookEnv


@dataclass
class LinkedStage:
    """A completed stage whose message was sent by webhook, and a reader without a session."""

    env: WebhookEnv
    run: Body
    data: Body
    client: httpx2.AsyncClient

    @property
    def path(self) -> str:
        url: str = self.data["actions"]["feedback"]
        return url.removeprefix("http://127.0.0.1:8750")

    async def get(self, path: str | None = None) -> httpx2.Response:
        return await self.client.get(path or self.path, headers=HTML)

    async def post(self, **fields: str) -> httpx2.Response:
        return await send(self.client, self.path, **fields)

    async def token(self) -> str:
        """Return the CSRF token of the page's form."""
        return (await self.get()).text.split('name="token" value="')[1].split('"')[0]

    async def feedback(self) -> tuple[str | None, str | None]:
        run_id = self.run["runId"]
        run = (await read_run_detail(self.env.call, run_id, RunInclude.NOTHING)).run
        stage = run.stages["scope"]
        return stage.feedback, stage.feedback_by


@asynccontextmanager
async def linked_stage(
    world: OrgEnv, *, may: tuple[Scope, ...] = (Scope.REVIEW,)
) -> AsyncIterator[LinkedStage]:
    async with linked_message(world, may, complete_stage) as sent:
        assert sent.payload["type"] == "run.awaiting_feedback"
        yield LinkedStage(sent.env, sent.cause, sent.payload["data"], sent.client)


async def complete_stage(agent: AgentClient) -> Body:
    """Complete the first stage of a run, which then waits for feedback; return the run."""
    run = await agent.run(models="a")
    await agent.work_off(run)
    return run


async def test_opening_a_feedback_link_changes_nothing(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        assert "No documents yet." in (await linked.get()).text
        await render_all_orgs(linked.env.services)
        assert (await linked.client.head(linked.path, headers=HTML)).status_code == 200
        reply = await linked.get()
        assert await linked.feedback() == (None, None)
    assert reply.status_code == 200
    assert "Rivers: Scope" in reply.text
    assert "Open the 1 document of this stage" in reply.text
    assert "Found" in reply.text
    assert reply.headers["cache-control"] == "no-store"
    assert "noindex" in reply.headers["x-robots-tag"]


async def test_posting_a_feedback_link_starts_the_next_stage_once(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        token = await linked.token()
        assert (await linked.post(feedback="Look at the Nile.")).status_code == 303
        assert await linked.feedback() == ("Look at the Nile.", "rita")
        assert (await linked.env.agent.job(linked.run))["status"] == "job_ready"
        assert "rita gave feedback" in (await linked.get()).text
        late = await linked.client.post(
            linked.path, data={"token": token, "feedback": "Another word."}, headers=HTML
        )
        assert late.status_code == 409
        assert "Already decided by rita" in late.text
        assert "Another word." in late.text
        assert await linked.feedback() == ("Look at the Nile.", "rita")
        entries = await world.entries(world.agent.org_id, linked.run["runId"])
        (entry,) = [entry for entry in entries if '"action":"stage_feedback"' in entry.details]
        assert '"decidedAs":"link:' in entry.details
        assert (entry.actor, entry.channel) == ("rita", "dashboard")


async def test_feedback_link_without_text_is_refused_beside_the_field(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        refused = await linked.post(feedback=" ")
        assert refused.status_code == 400
        assert 'id="feedback-fault"' in refused.text
        assert await linked.feedback() == (None, None)


async def test_feedback_link_is_gone_after_revocation(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        token = await linked.token()
        assert await revoke_action_links(linked.env.call, linked.run["runId"]) == 1
        assert await revoke_action_links(linked.env.call, None) == 0
        form = {"token": token, "feedback": "Go on."}
        for reply in (
            await linked.get(),
            await linked.client.post(linked.path, data=form, headers=HTML),
        ):
            assert reply.status_code == 410
            assert "revoked" in reply.text
            assert "Rivers" not in reply.text
        assert await linked.feedback() == (None, None)


async def test_feedback_link_of_canceled_run_reports_the_cancellation(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        token = await linked.token()
        await linked.env.agent.call("cancel_run", runId=linked.run["runId"], reason="No need.")
        form = {"token": token, "feedback": "Go on."}
        late = await linked.client.post(linked.path, data=form, headers=HTML)
        assert late.status_code == 400
        for reply in (late, await linked.get()):
            assert "The run was canceled" in reply.text
            assert "<form" not in reply.text
        assert "Go on." in late.text
        assert await linked.feedback() == (None, None)


async def test_feedback_link_decides_no_review_and_opens_no_other_page(world: OrgEnv) -> None:
    async with linked_stage(world) as linked:
        secret = linked.path.split("/")[2]
        for path in (
            f"/act/{secret}/approve",
            f"/shared/{secret}",
            f"/act/{secret[:-1]}/feedback",
            f"/act/{secret}/feedback/x",
        ):
            assert (await linked.get(path)).status_code in {401, 404}, path
        run_id = linked.run["runId"]
        for path in ("/", "/inbox", f"/runs/{run_id}"):
            assert (await linked.get(path)).status_code in {303, 401}, path
