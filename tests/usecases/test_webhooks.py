"""Notifications: their kinds, recipients, and texts."""

from pathlib import Path

import pytest

from definitions import a_definition, a_recipe_step, a_stage
from endpoint_server import (
    an_endpoint,
)
from waybook.app.operations.delivery import retry_delivery, send_test_notification
from waybook.app.operations.stalls import sweep_stalls
from waybook.errors import NotFound
from waybook.notifications.message import DeliveryStatus
from webhook_worlds import TAKEN, a_review, a_teller, events, told, verified
from worlds import Agent, Clock, World

# Notification kinds


async def test_review_notification_has_requester_and_review_url(world: World, clock: Clock) -> None:
    async with told(world) as (other, teller):
        review = await a_review(teller.agent)
        assert await teller.deliver() == 1
        (request,) = other.asked
        (delivery,) = await teller.deliveries()
    payload = verified(request)
    assert request.path == "/hook"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == delivery.id
    assert request.headers["webhook-timestamp"] == str(int(clock.now.timestamp()))
    assert payload == {
        "type": "plan.review_requested",
        "timestamp": clock.now.isoformat(),
        "data": {
            "orgId": str(teller.agent.org_id),
            "by": {"user": "ann", "channel": "mcp"},
            "planId": review["planId"],
            "planName": "Rivers",
            "status": "awaiting_review",
            "progress": {"percent": 0, "done": 0, "total": 1},
            "review": {
                "reviewId": review["reviewId"],
                "stepId": review["stepId"],
                "stepOrder": 1,
                "stepTitle": "Measure",
                "summary": "The Nile, probably.",
                "questions": 1,
            },
            "url": f"http://127.0.0.1:8750/plans/{review['planId']}",
            "reviewUrl": review["reviewUrl"],
        },
    }
    assert b"6,650" not in request.raw
    assert (delivery.status, delivery.attempt, delivery.answered) == (
        DeliveryStatus.DELIVERED,
        1,
        204,
    )


async def test_plan_notifications_on_stall_completion_review_and_failure(
    world: World, clock: Clock
) -> None:
    async with told(world) as (other, teller):
        agent = teller.agent
        plan = await agent.plan(2)
        step = await agent.take(plan)
        clock.advance(minutes=31)
        assert await sweep_stalls(teller.call) == 1
        assert await sweep_stalls(teller.call) == 0
        await agent.submit(step)
        await agent.work_through(plan)
        rejected = await a_review(agent)
        await agent.call("submit_user_decision", planId=rejected["planId"], decision="reject")
        assert await events(teller) == [
            "plan.stalled",
            "plan.completed",
            "plan.review_requested",
            "plan.failed",
        ]
        await teller.deliver()
        payloads = {p["type"]: p["data"] for p in map(verified, other.asked)}
    stalled, failed = payloads["plan.stalled"], payloads["plan.failed"]
    assert [stalled_step["stepOrder"] for stalled_step in stalled["steps"]] == [1]
    assert stalled["by"] == {"user": "waybook", "channel": "sweep"}
    assert (failed["outcome"], "reviewUrl" in failed) == ("failed", False)
    assert payloads["plan.completed"]["progress"] == {"percent": 100, "done": 2, "total": 2}


async def test_run_notifications_on_stage_failure_feedback_and_completion(
    world: World,
) -> None:
    async with told(world) as (other, teller):
        agent = teller.agent
        dag = a_definition(
            "two", a_stage("survey", a_recipe_step("look")), a_stage("end", a_recipe_step("sum"))
        )
        dag["transitions"] = [{"from": "survey", "to": "end"}]
        await agent.call("add_dag", definition=dag)
        run = await agent.run("two", "a")
        job = await agent.job(run)
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        await agent.call("fail_job", **held, error="broken", retryable=False)
        await agent.call("retry_failed", runId=run["runId"], stageSlug="survey")
        waiting = await agent.work_off(run)
        assert waiting["runUrl"] == f"http://127.0.0.1:8750/runs/{run['runId']}"
        await agent.feedback(run, "survey")
        await agent.work_off(run)
        assert await events(teller) == [
            "run.stage_failed",
            "run.awaiting_feedback",
            "run.completed",
        ]
        await teller.deliver()
        payloads = {p["type"]: p["data"] for p in map(verified, other.asked)}
    failed, waits = payloads["run.stage_failed"], payloads["run.awaiting_feedback"]
    assert (failed["stageSlug"], failed["failedSteps"]) == ("survey", ["look"])
    assert (waits["stageSlug"], waits["url"]) == ("survey", waiting["runUrl"])
    done = payloads["run.completed"]["progress"]
    assert done == {"completedStages": 2, "totalStages": 2}


async def test_run_completed_on_start_sends_notification(world: World) -> None:
    async with told(world) as (_, teller):
        idle = a_definition("idle", a_stage("only", a_recipe_step("look", skip=True)))
        await teller.agent.call("add_dag", definition=idle)
        await teller.agent.run("idle", "a")
        assert await events(teller) == ["run.completed"]


async def test_notifications_are_limited_to_configured_events(world: World) -> None:
    only = frozenset({"plan.completed"})
    async with a_teller(world, "http://127.0.0.1:1", events=only) as teller:
        await a_review(teller.agent)
        plan = await teller.agent.plan(1)
        await teller.agent.work_through(plan)
        assert await events(teller) == ["plan.completed"]


async def test_no_webhook_configured_stores_no_deliveries(world: World, agent: Agent) -> None:
    await a_review(agent)
    async with told(world) as (other, teller):
        assert await teller.deliveries() == []
        assert await teller.deliver() == 0
        assert other.asked == []


async def test_refused_call_sends_no_notification(world: World) -> None:
    async with told(world) as (_, teller):
        review = await a_review(teller.agent)
        refused = await teller.agent.refused(
            "request_user_review", stepId=review["stepId"], summary="Again."
        )
        assert refused["code"] == "INVALID_TRANSITION"
        assert await events(teller) == ["plan.review_requested"]


async def test_replayed_call_sends_single_notification(world: World) -> None:
    async with told(world) as (_, teller):
        plan = await teller.agent.plan(1)
        step = await teller.agent.take(plan)
        for _ in range(2):
            await teller.agent.submit(step, idempotencyKey="once")
        assert await events(teller) == ["plan.completed"]


async def test_deliveries_are_limited_to_own_org(world: World) -> None:
    world.neighbour_may_change = True
    async with (
        told(world) as (other, teller),
        a_teller(world, f"{other.url}/theirs", agent=world.neighbour) as neighbour,
    ):
        await neighbour.agent.work_through(world.neighbours_plan)
        await a_review(teller.agent)
        (ours,) = await teller.deliveries()
        await teller.deliver()
        assert [request.path for request in other.asked] == ["/hook"]
        (theirs,) = await neighbour.deliveries()
        assert (theirs.event, theirs.status) == ("plan.completed", DeliveryStatus.WAITING)
        for unknown in (ours.id, "none"):
            with pytest.raises(NotFound):
                await retry_delivery(neighbour.call, unknown)


# Formats


async def test_slack_message_escapes_mentions(world: World) -> None:
    async with told(world, form="slack") as (other, teller):
        plan = await teller.agent.plan(1, name="<!channel> & <@U1>")
        await teller.agent.work_through(plan)
        await teller.deliver()
        (request,) = other.asked
    assert verified(request) == {
        "text": "*&lt;!channel&gt; &amp; &lt;@U1&gt; is complete*\n1 of 1 steps are done.\n"
        f"http://127.0.0.1:8750/plans/{plan['planId']}"
    }


async def test_text_notification_starts_with_subject(world: World) -> None:
    async with told(world, form="text") as (other, teller):
        review = await a_review(teller.agent)
        await teller.deliver()
        (request,) = other.asked
    assert request.headers["content-type"] == "text/plain; charset=utf-8"
    assert request.raw.decode() == (
        "Rivers: step 1 waits for your decision\n\n"
        "The Nile, probably.\n"
        "There is one question.\n"
        "ann asks; 0 of 1 steps are done, and nothing starts until you decide.\n"
        f"{review['reviewUrl']}\n"
    )


async def test_custom_template_overrides_builtin_text(world: World, tmp_path: Path) -> None:
    (tmp_path / "plan.completed.txt").write_text("Fertig: {{ data.planName }}", "utf-8")
    async with (
        an_endpoint(TAKEN) as other,
        a_teller(world, other.url, form="slack", folder=tmp_path) as teller,
    ):
        await teller.agent.work_through(await teller.agent.plan(1))
        await teller.deliver()
        assert other.asked[0].body == {"text": "*Fertig: Rivers*"}


async def test_webhook_with_two_secrets_is_signed_with_both(world: World) -> None:
    new = "whsec_bmV3IHNlY3JldCwgbmV3IHNlY3JldCwgbmV3IQ=="
    old = "whsec_dHdlbnR5LWZvdXIgYnl0ZXMgYW5kIG1vcmU="
    async with (
        an_endpoint(TAKEN) as other,
        a_teller(world, other.url, secrets=f"{new} {old}") as teller,
    ):
        await send_test_notification(teller.call)
        (request,) = other.asked
    assert verified(request) == verified(request, b"new secret, new secret, new!")
