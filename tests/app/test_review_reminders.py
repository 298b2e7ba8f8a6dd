"""An overdue review gets one reminder by webhook, which does not decide the review."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from org_env import FakeClock, OrgEnv
from waybook.app.operations.sweeps import remind_of_reviews
from waybook.app.queries.inbox import read_review
from waybook.app.queries.overview import LastLook, read_overview
from waybook.app.request.request_context import RequestContext
from webhook_env import (
    EVERY_EVENT,
    events,
    make_review,
    make_webhook_env,
    received_events,
    verified,
)


async def test_reminder_with_deadline_is_sent_once_for_an_overdue_review(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world) as (other, teller):
        review = await make_review(teller.agent)
        due_at = clock.now + timedelta(hours=24)
        clock.advance(hours=23)
        assert await remind_of_reviews(teller.call) == 0
        clock.advance(hours=2)
        assert await remind_of_reviews(teller.call) == 1
        assert await remind_of_reviews(teller.call) == 0
        await teller.deliver()
        payload = verified(other.requests[-1])
    data = payload["data"]
    assert payload["type"] == "plan.review_overdue"
    assert data["dueAt"] == due_at.isoformat()
    assert data["by"] == {"user": "waybook", "channel": "sweep"}
    assert data["review"]["reviewId"] == review["reviewId"]
    assert data["reviewUrl"].endswith(f"/plans/{review['planId']}#review")


async def test_two_concurrent_processes_store_a_review_reminder_only_once(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with (
        make_webhook_env(world, "http://127.0.0.1:1") as first,
        make_webhook_env(world, "http://127.0.0.1:1") as second,
    ):
        await make_review(first.agent)
        clock.advance(hours=25)
        stored = await asyncio.gather(remind_of_reviews(first.call), remind_of_reviews(second.call))
        assert sum(stored) == 1
        assert await events(first) == ["plan.review_requested", "plan.review_overdue"]


async def test_review_reminder_changes_neither_review_nor_audit(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with make_webhook_env(world, "http://127.0.0.1:1") as teller:
        review = await make_review(teller.agent)
        before = await teller.agent.call("get_plan_status", planId=review["planId"])
        clock.advance(hours=25)
        await remind_of_reviews(teller.call)
        after = await teller.agent.call("get_plan_status", planId=review["planId"])
        record = await read_review(teller.call, review["reviewId"])
    assert record.decision is None
    assert (after["status"], after["revision"]) == (before["status"], before["revision"])


async def test_decided_review_gets_no_reminder(world: OrgEnv, clock: FakeClock) -> None:
    async with make_webhook_env(world, "http://127.0.0.1:1") as teller:
        review = await make_review(teller.agent)
        await teller.agent.call("submit_user_decision", planId=review["planId"], decision="approve")
        clock.advance(hours=25)
        assert await remind_of_reviews(teller.call) == 0


async def test_review_overdue_for_over_a_week_gets_no_reminder(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with make_webhook_env(world, "http://127.0.0.1:1") as teller:
        await make_review(teller.agent)
        clock.advance(days=9)
        assert await remind_of_reviews(teller.call) == 0


async def test_no_reminder_is_stored_if_deadline_or_notification_is_disabled(
    world: OrgEnv, clock: FakeClock
) -> None:
    others = EVERY_EVENT - {"plan.review_overdue"}
    async with make_webhook_env(world, "http://127.0.0.1:1", events=others) as teller:
        await make_review(teller.agent)
        clock.advance(hours=25)
        assert await remind_of_reviews(teller.call) == 0
    async with make_webhook_env(world, "http://127.0.0.1:1") as teller:
        endless = replace(teller.services, review_reminder=None)
        assert await remind_of_reviews(replace(teller.call, services=endless)) == 0


async def test_pending_review_list_marks_exactly_the_overdue_reviews(
    world: OrgEnv, clock: FakeClock
) -> None:
    ctx = RequestContext(services=world.dispatcher.services, caller=world.agent.caller)
    late = await make_review(world.agent)
    clock.advance(hours=25)
    early = await make_review(world.agent)
    needs = (await read_overview(ctx, LastLook())).needs
    assert [(item.id, item.is_overdue) for item, _ in needs if item.kind == "review"] == [
        (late["reviewId"], True),
        (early["reviewId"], False),
    ]
