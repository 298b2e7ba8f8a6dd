"""Webhook messages that were not delivered are sent again, by one process at a time."""

import asyncio
import logging
from datetime import timedelta

import pytest

from fake_endpoint import (
    Play,
    Writer,
    answer,
    close_early,
    endless_body,
    fake_endpoint,
    invalid_body,
    never_respond,
    slow_body,
    slow_headers,
    truncated_body,
    unused_url,
)
from org_env import FakeClock, OrgEnv, open_test_database
from patience import PATIENCE_SECONDS
from waybook.app.operations.checks import CheckState
from waybook.app.operations.delivery import (
    LEASE,
    MAX_CONCURRENT,
    deliver_notifications,
    retry_delivery,
    send_test_notification,
)
from waybook.app.operations.diagnostics import check_notifications
from waybook.app.queries.usage import count_deliveries
from waybook.background import count_all_orgs, delivery_loop
from waybook.notifications.delivery import MAX_DELIVERY_TIME, DeliveryStatus
from webhook_env import (
    PLENTY,
    SHORT,
    TAKEN,
    make_review,
    make_webhook_env,
    received_events,
    verified,
)

TOO_LATE = "it gave no answer within 1 s"


@pytest.mark.parametrize(
    ("play", "fault"),
    [
        (answer("", 500), "it answered 500"),
        (answer("", 404), "it answered 404"),
        (never_respond, TOO_LATE),
        (slow_headers, TOO_LATE),
        (close_early, "the connection broke (RemoteProtocolError)"),
        (invalid_body, "the connection broke (RemoteProtocolError)"),
    ],
    ids=["500", "404", "never", "header by header", "hangs up", "nonsense"],
)
async def test_failed_webhook_delivery_is_retried_with_same_webhook_id(
    world: OrgEnv, clock: FakeClock, play: Play, fault: str
) -> None:
    async with received_events(world, play, TAKEN) as (other, teller):
        await make_review(teller.agent)
        seconds = SHORT if fault == TOO_LATE else PLENTY
        async with make_webhook_env(world, f"{other.url}/hook", seconds=seconds) as hasty:
            assert await hasty.deliver() == 1
        (waiting,) = await teller.deliveries()
        assert (waiting.status, waiting.error) == (DeliveryStatus.WAITING, fault)
        assert timedelta(seconds=4) <= waiting.due_at - clock.now <= timedelta(seconds=6)
        clock.advance(seconds=6)
        assert await teller.deliver() == 1
        (taken,) = await teller.deliveries()
    assert (taken.status, taken.attempt, taken.error) == (DeliveryStatus.DELIVERED, 2, None)
    first, second = other.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert verified(first) == verified(second)
    stamps = [int(request.headers["webhook-timestamp"]) for request in other.requests]
    assert stamps[1] - stamps[0] == 6


async def test_webhook_message_that_was_never_sent_is_reported_as_overdue(
    own_world: OrgEnv,
) -> None:
    async with make_webhook_env(own_world, await unused_url()) as teller:
        await make_review(teller.agent)
        for seconds, overdue, state in ((0, 0, CheckState.OK), (180, 1, CheckState.WARN)):
            own_world.clock.advance(seconds=seconds)
            await count_all_orgs(teller.services)
            assert teller.services.work.total().overdue_deliveries == overdue
            (check,) = check_notifications(await count_deliveries(teller.call), configured=True)
            assert (check.state, "overdue" in check.message) == (state, bool(overdue))


async def test_delivering_process_retries_webhook_messages_of_all_orgs(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world, answer("", 500), TAKEN) as (other, teller):
        await make_review(teller.agent)
        await teller.deliver()
        clock.advance(seconds=6)
        teller.services.leadership.delivers = True
        loop = asyncio.create_task(delivery_loop(teller.services, 0))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(other.requests) < 2:  # noqa: ASYNC110 - the receiver reports nothing
                await asyncio.sleep(0.01)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        teller.services.leadership.delivers = False


async def test_webhook_delivery_stays_pending_while_endpoint_is_unreachable(world: OrgEnv) -> None:
    async with make_webhook_env(world, await unused_url()) as teller:
        await make_review(teller.agent)
        await teller.deliver()
        (waiting,) = await teller.deliveries()
    assert (waiting.status, waiting.error) == (DeliveryStatus.WAITING, "it cannot be reached")


@pytest.mark.parametrize("play", [endless_body, slow_body, truncated_body])
async def test_webhook_delivery_succeeds_regardless_of_response_body(
    world: OrgEnv, play: Play
) -> None:
    async with received_events(world, play) as (_, teller):
        await make_review(teller.agent)
        await teller.deliver()
        (taken,) = await teller.deliveries()
    assert taken.status is DeliveryStatus.DELIVERED


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_webhook_delivery_does_not_follow_redirects(world: OrgEnv, status: int) -> None:
    async with fake_endpoint(TAKEN) as elsewhere:
        moved = answer("", status, location=f"{elsewhere.url}/internal")
        async with received_events(world, moved) as (other, teller):
            await make_review(teller.agent)
            await teller.deliver()
            (waiting,) = await teller.deliveries()
    assert (waiting.status, waiting.answered) == (DeliveryStatus.WAITING, status)
    assert (len(other.requests), elsewhere.requests) == (1, [])


async def test_webhook_delivery_is_abandoned_after_maximum_time_and_logged(
    world: OrgEnv, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with received_events(world, answer("", 500)) as (other, teller):
        await make_review(teller.agent)
        began = clock.now
        while (delivery := (await teller.deliveries())[0]).status is DeliveryStatus.WAITING:
            world.database.frozen_now = delivery.due_at
            assert await teller.deliver() == 1
        ended = clock.now
        counted = await count_deliveries(teller.call)
        clock.advance(days=2)
        assert await teller.deliver() == 0
        assert len(other.requests) == delivery.attempt
    assert timedelta(hours=16) < ended - began <= MAX_DELIVERY_TIME
    assert 10 <= delivery.attempt <= 20
    assert (delivery.status, delivery.settled_at) == (DeliveryStatus.GIVEN_UP, ended)
    assert (counted.given_up, counted.waiting) == (1, 0)
    (error_record,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert delivery.id in error_record.getMessage()


async def test_webhook_delivery_is_abandoned_immediately_after_410_answer(world: OrgEnv) -> None:
    async with received_events(world, answer("", 410)) as (_, teller):
        await make_review(teller.agent)
        await teller.deliver()
        (delivery,) = await teller.deliveries()
    assert (delivery.status, delivery.attempt) == (DeliveryStatus.GIVEN_UP, 1)


async def test_retry_sends_abandoned_webhook_delivery_again(world: OrgEnv) -> None:
    async with received_events(world, answer("", 410), TAKEN) as (other, teller):
        await make_review(teller.agent)
        await teller.deliver()
        (delivery,) = await teller.deliveries()
        sent = await retry_delivery(teller.call, delivery.id.upper())
        assert (sent.status, sent.attempt) == (DeliveryStatus.DELIVERED, 1)
        assert len({request.headers["webhook-id"] for request in other.requests}) == 1


async def test_sending_a_test_notification_reports_delivery_status(world: OrgEnv) -> None:
    async with received_events(world, TAKEN, answer("", 500)) as (other, teller):
        assert (await send_test_notification(teller.call)).status is DeliveryStatus.DELIVERED
        failed = await send_test_notification(teller.call)
        assert (failed.status, failed.error) == (DeliveryStatus.WAITING, "it answered 500")
        payload = verified(other.requests[0])
    assert (payload["type"], payload["data"]["url"]) == ("webhook.test", "http://127.0.0.1:8750")


async def test_finished_webhook_deliveries_are_deleted_after_retention_period(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world) as (_, teller):
        await make_review(teller.agent)
        await teller.deliver()
        clock.advance(days=31)
        await make_review(teller.agent)
        await teller.deliver()
        (delivery,) = await teller.deliveries()
    assert delivery.at == clock.now


async def test_concurrent_processes_deliver_each_webhook_message_once(world: OrgEnv) -> None:
    in_flight = 0
    both = asyncio.Event()

    async def meet(writer: Writer) -> None:
        """Delay all answers until each of the two processes has a request in progress."""
        nonlocal in_flight
        in_flight += 1
        if in_flight > MAX_CONCURRENT:
            both.set()
        await both.wait()
        await TAKEN(writer)

    async with (
        received_events(world, meet) as (other, first),
        open_test_database(world.place) as database,
    ):
        async with make_webhook_env(world, f"{other.url}/hook", database=database) as second:
            for _ in range(3 * MAX_CONCURRENT):
                await make_review(first.agent)
            async with asyncio.timeout(PATIENCE_SECONDS):
                shares = await asyncio.gather(first.deliver(), second.deliver())
        assert sum(shares) == 3 * MAX_CONCURRENT
        ids = [request.headers["webhook-id"] for request in other.requests]
        assert len(ids) == len(set(ids)) == 3 * MAX_CONCURRENT
        assert {delivery.status for delivery in await first.deliveries()} == {
            DeliveryStatus.DELIVERED
        }


async def test_webhook_delivery_in_progress_is_not_sent_by_other_process(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with received_events(world, never_respond, TAKEN) as (other, teller):
        await make_review(teller.agent)
        slow = asyncio.create_task(deliver_notifications(teller.call))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await other.heard.wait()
        assert await teller.deliver() == 0
        clock.advance(seconds=LEASE.total_seconds())
        assert await teller.deliver() == 1
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        (taken,) = await teller.deliveries()
    assert (taken.status, taken.attempt) == (DeliveryStatus.DELIVERED, 2)
