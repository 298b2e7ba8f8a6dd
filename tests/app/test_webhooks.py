"""Notifications by webhook: the calls that cause one, and the content in each format."""

from pathlib import Path

import pytest

from fake_endpoint import fake_endpoint
from org_env import AgentClient, FakeClock, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.operations.delivery import retry_delivery, send_test_notification
from waybook.app.operations.sweeps import sweep_stalls
from waybook.errors import NotFound
from waybook.notifications.delivery import DeliveryStatus
from webhook_env import TAKEN, events, make_review, make_webhook_env, received_events, verified


async def test_review_notification_contains_requester_and_review_url(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world) as (other, teller):
        review = await make_review(teller.agent)
        assert await teller.deliver() == 1
        (request,) = other.requests
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
            "reviewUrl": f"http://127.0.0.1:8750/plans/{review['planId']}#review",
        },
    }
    assert b"6,650" not in request.raw
    assert (delivery.status, delivery.attempt, delivery.answered) == (
        DeliveryStatus.DELIVERED,
        1,
        204,
    )


async def test_webhook_reports_stall_completion_failure_and_review_of_plan(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world) as (other, teller):
        agent = teller.agent
        plan = await agent.plan(2)
        step = await agent.take(plan)
        clock.advance(minutes=31)
        assert await sweep_stalls(teller.call) == 1
        assert await sweep_stalls(teller.call) == 0
        await agent.submit(step)
        await agent.work_through(plan)
        rejected = await make_review(agent)
        await agent.call("submit_user_decision", planId=rejected["planId"], decision="reject")
        assert await events(teller) == [
            "plan.stalled",
            "plan.completed",
            "plan.review_requested",
            "plan.failed",
        ]
        await teller.deliver()
        payloads = {p["type"]: p["data"] for p in map(verified, other.requests)}
    stalled, failed = payloads["plan.stalled"], payloads["plan.failed"]
    assert [stalled_step["stepOrder"] for stalled_step in stalled["steps"]] == [1]
    assert stalled["by"] == {"user": "waybook", "channel": "sweep"}
    assert (failed["outcome"], "reviewUrl" in failed) == ("failed", False)
    assert payloads["plan.completed"]["progress"] == {"percent": 100, "done": 2, "total": 2}


async def test_webhook_reports_stage_failure_awaited_feedback_and_end_of_run(world: OrgEnv) -> None:
    async with received_events(world) as (other, teller):
        agent = teller.agent
        dag = make_definition(
            "two",
            make_stage("survey", make_recipe_step("look")),
            make_stage("end", make_recipe_step("sum")),
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
        payloads = {p["type"]: p["data"] for p in map(verified, other.requests)}
    failed, waits = payloads["run.stage_failed"], payloads["run.awaiting_feedback"]
    assert (failed["stageSlug"], failed["failedSteps"]) == ("survey", ["look"])
    assert waits["stageSlug"] == "survey"
    assert waits["url"] == f"http://127.0.0.1:8750/runs/{run['runId']}"
    done = payloads["run.completed"]["progress"]
    assert done == {"completedStages": 2, "totalStages": 2}


async def test_run_that_completes_at_start_sends_notification(world: OrgEnv) -> None:
    async with received_events(world) as (_, teller):
        idle = make_definition("idle", make_stage("only", make_recipe_step("look", skip=True)))
        await teller.agent.call("add_dag", definition=idle)
        await teller.agent.run("idle", "a")
        assert await events(teller) == ["run.completed"]


async def test_webhook_sends_only_configured_events(world: OrgEnv) -> None:
    only = frozenset({"plan.completed"})
    async with make_webhook_env(world, "http://127.0.0.1:1", events=only) as teller:
        await make_review(teller.agent)
        plan = await teller.agent.plan(1)
        await teller.agent.work_through(plan)
        assert await events(teller) == ["plan.completed"]


async def test_webhook_deliveries_are_stored_only_if_a_webhook_is_configured(
    world: OrgEnv, agent: AgentClient
) -> None:
    await make_review(agent)
    async with received_events(world) as (other, teller):
        assert await teller.deliveries() == []
        assert await teller.deliver() == 0
        assert other.requests == []


async def test_refused_call_sends_no_notification(world: OrgEnv) -> None:
    async with received_events(world) as (_, teller):
        review = await make_review(teller.agent)
        refused = await teller.agent.refused(
            "request_user_review", stepId=review["stepId"], summary="Again."
        )
        assert refused["code"] == "INVALID_TRANSITION"
        assert await events(teller) == ["plan.review_requested"]


async def test_replayed_call_sends_single_notification(world: OrgEnv) -> None:
    async with received_events(world) as (_, teller):
        plan = await teller.agent.plan(1)
        step = await teller.agent.take(plan)
        for _ in range(2):
            await teller.agent.submit(step, idempotencyKey="once")
        assert await events(teller) == ["plan.completed"]


async def test_webhook_deliveries_of_other_org_are_neither_sent_nor_retried(world: OrgEnv) -> None:
    world.other_org_may_change = True
    async with (
        received_events(world) as (other, teller),
        make_webhook_env(world, f"{other.url}/theirs", agent=world.other_org) as other_org,
    ):
        await other_org.agent.work_through(world.other_org_plan)
        await make_review(teller.agent)
        (ours,) = await teller.deliveries()
        await teller.deliver()
        assert [request.path for request in other.requests] == ["/hook"]
        (theirs,) = await other_org.deliveries()
        assert (theirs.event, theirs.status) == ("plan.completed", DeliveryStatus.WAITING)
        for unknown in (ours.id, "none"):
            with pytest.raises(NotFound):
                await retry_delivery(other_org.call, unknown)


async def test_slack_message_escapes_mentions_in_plan_name(world: OrgEnv) -> None:
    async with received_events(world, form="slack") as (other, teller):
        plan = await teller.agent.plan(1, name="<!channel> & <@U1>")
        await teller.agent.work_through(plan)
        await teller.deliver()
        (request,) = other.requests
    assert verified(request) == {
        "text": "*&lt;!channel&gt; &amp; &lt;@U1&gt; is done*\n1 of 1 steps are done.\n"
        f"http://127.0.0.1:8750/plans/{plan['planId']}"
    }


async def test_text_notification_starts_with_the_subject_line(world: OrgEnv) -> None:
    async with received_events(world, form="text") as (other, teller):
        review = await make_review(teller.agent)
        await teller.deliver()
        (request,) = other.requests
    assert request.headers["content-type"] == "text/plain; charset=utf-8"
    assert request.raw.decode() == (
        "Rivers: step 1 waits for your decision\n\n"
        "The Nile, probably.\n"
        "There is one question.\n"
        "ann asked for it; 0 of 1 steps are done, and nothing starts until you decide.\n"
        f"http://127.0.0.1:8750/plans/{review['planId']}#review\n"
    )


async def test_custom_template_overrides_builtin_notification_text(
    world: OrgEnv, tmp_path: Path
) -> None:
    (tmp_path / "plan.completed.txt").write_text("Fertig: {{ data.planName }}", "utf-8")
    async with (
        fake_endpoint(TAKEN) as other,
        make_webhook_env(world, other.url, form="slack", folder=tmp_path) as teller,
    ):
        await teller.agent.work_through(await teller.agent.plan(1))
        await teller.deliver()
        assert other.requests[0].body == {"text": "*Fertig: Rivers*"}


async def test_webhook_with_two_secrets_is_signed_with_both(world: OrgEnv) -> None:
    new = "whsec_bmV3IHNlY3JldCwgbmV3IHNlY3JldCwgbmV3IQ=="
    old = "whsec_dHdlbnR5LWZvdXIgYnl0ZXMgYW5kIG1vcmU="
    async with (
        fake_endpoint(TAKEN) as other,
        make_webhook_env(world, other.url, secrets=f"{new} {old}") as teller,
    ):
        await send_test_notification(teller.call)
        (request,) = other.requests
    assert verified(request) == verified(request, b"new secret, new secret, new!")
