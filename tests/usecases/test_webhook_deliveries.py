"""Undelivered notifications: retried, by one process at a time, until they arrive."""

import asyncio
import logging
from datetime import timedelta

import pytest

from endpoint_server import (
    Play,
    Writer,
    an_endpoint,
    answer,
    drop_by_drop,
    endlessly,
    half,
    hang_up,
    header_by_header,
    never,
    nobodys_url,
    nonsense,
)
from waybook.app.operations.delivery import (
    LEASE,
    MAX_CONCURRENT,
    deliver_notifications,
    retry_delivery,
    send_test_notification,
)
from waybook.app.queries.usage import count_deliveries
from waybook.notifications.message import MAX_DELIVERY_TIME, DeliveryStatus
from webhook_worlds import PLENTY, SHORT, TAKEN, a_review, a_teller, told, verified
from worlds import Clock, World, a_database

TOO_LATE = "it gave no answer within 1 s"


@pytest.mark.parametrize(
    ("play", "fault"),
    [
        (answer("", 500), "it answered 500"),
        (answer("", 404), "it answered 404"),
        (never, TOO_LATE),
        (header_by_header, TOO_LATE),
        (hang_up, "the exchange broke off (RemoteProtocolError)"),
        (nonsense, "the exchange broke off (RemoteProtocolError)"),
    ],
    ids=["500", "404", "never", "header by header", "hangs up", "nonsense"],
)
async def test_what_was_not_taken_is_tried_again_under_the_same_id(
    world: World, clock: Clock, play: Play, fault: str
) -> None:
    async with told(world, play, TAKEN) as (other, teller):
        await a_review(teller.agent)
        seconds = SHORT if fault == TOO_LATE else PLENTY
        async with a_teller(world, f"{other.url}/hook", seconds=seconds) as hasty:
            assert await hasty.deliver() == 1
        (waiting,) = await teller.deliveries()
        assert (waiting.status, waiting.fault) == (DeliveryStatus.WAITING, fault)
        assert timedelta(seconds=4) <= waiting.due_at - clock.now <= timedelta(seconds=6)
        clock.advance(seconds=6)
        assert await teller.deliver() == 1
        (taken,) = await teller.deliveries()
    assert (taken.status, taken.attempt, taken.fault) == (DeliveryStatus.DELIVERED, 2, None)
    first, second = other.asked
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert verified(first) == verified(second)
    stamps = [int(asked.headers["webhook-timestamp"]) for asked in other.asked]
    assert stamps[1] - stamps[0] == 6


async def test_where_nobody_listens_it_is_tried_again(world: World) -> None:
    async with a_teller(world, await nobodys_url()) as teller:
        await a_review(teller.agent)
        await teller.deliver()
        (waiting,) = await teller.deliveries()
    assert (waiting.status, waiting.fault) == (DeliveryStatus.WAITING, "it cannot be reached")


@pytest.mark.parametrize("play", [endlessly, drop_by_drop, half])
async def test_what_the_other_side_says_beside_its_status_is_not_read(
    world: World, play: Play
) -> None:
    async with told(world, play) as (_, teller):
        await a_review(teller.agent)
        await teller.deliver()
        (taken,) = await teller.deliveries()
    assert taken.status is DeliveryStatus.DELIVERED


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_nobody_is_sent_on_to_somebody_else(world: World, status: int) -> None:
    async with an_endpoint(TAKEN) as elsewhere:
        moved = answer("", status, location=f"{elsewhere.url}/internal")
        async with told(world, moved) as (other, teller):
            await a_review(teller.agent)
            await teller.deliver()
            (waiting,) = await teller.deliveries()
    assert (waiting.status, waiting.answered) == (DeliveryStatus.WAITING, status)
    assert (len(other.asked), elsewhere.asked) == (1, [])


async def test_it_is_given_up_after_a_day_and_that_is_told(
    world: World, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with told(world, answer("", 500)) as (other, teller):
        await a_review(teller.agent)
        began = clock.now
        while (found := (await teller.deliveries())[0]).status is DeliveryStatus.WAITING:
            world.database.frozen_now = found.due_at
            assert await teller.deliver() == 1
        ended = clock.now
        counted = await count_deliveries(teller.call)
        clock.advance(days=2)
        assert await teller.deliver() == 0
        assert len(other.asked) == found.attempt
    assert timedelta(hours=16) < ended - began <= MAX_DELIVERY_TIME
    assert 10 <= found.attempt <= 20
    assert (found.status, found.settled_at) == (DeliveryStatus.GIVEN_UP, ended)
    assert (counted.given_up, counted.waiting) == (1, 0)
    (given_up,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert found.id in given_up.getMessage()


async def test_whoever_wants_no_more_is_left_alone(world: World) -> None:
    async with told(world, answer("", 410)) as (_, teller):
        await a_review(teller.agent)
        await teller.deliver()
        (given_up,) = await teller.deliveries()
    assert (given_up.status, given_up.attempt) == (DeliveryStatus.GIVEN_UP, 1)


async def test_what_was_given_up_can_be_sent_again_by_hand(world: World) -> None:
    async with told(world, answer("", 410), TAKEN) as (other, teller):
        await a_review(teller.agent)
        await teller.deliver()
        (given_up,) = await teller.deliveries()
        sent = await retry_delivery(teller.call, given_up.id.upper())
        assert (sent.status, sent.attempt) == (DeliveryStatus.DELIVERED, 1)
        assert len({asked.headers["webhook-id"] for asked in other.asked}) == 1


async def test_a_test_says_whether_it_arrived(world: World) -> None:
    async with told(world, TAKEN, answer("", 500)) as (other, teller):
        assert (await send_test_notification(teller.call)).status is DeliveryStatus.DELIVERED
        failed = await send_test_notification(teller.call)
        assert (failed.status, failed.fault) == (DeliveryStatus.WAITING, "it answered 500")
        payload = verified(other.asked[0])
    assert (payload["type"], payload["data"]["url"]) == ("webhook.test", "http://127.0.0.1:8750")


async def test_what_was_settled_long_ago_is_forgotten(world: World, clock: Clock) -> None:
    async with told(world) as (_, teller):
        await a_review(teller.agent)
        await teller.deliver()
        clock.advance(days=31)
        await a_review(teller.agent)
        await teller.deliver()
        (kept,) = await teller.deliveries()
    assert kept.at == clock.now


# Several processes


async def test_two_processes_deliver_each_letter_once(world: World) -> None:
    in_flight = 0
    both = asyncio.Event()

    async def meet(writer: Writer) -> None:
        """Answer no request before both are in progress."""
        nonlocal in_flight
        in_flight += 1
        if in_flight > MAX_CONCURRENT:
            both.set()
        await both.wait()
        await TAKEN(writer)

    async with told(world, meet) as (other, first), a_database(world.place) as database:
        async with a_teller(world, f"{other.url}/hook", database=database) as second:
            for _ in range(3 * MAX_CONCURRENT):
                await a_review(first.agent)
            async with asyncio.timeout(20):
                shares = await asyncio.gather(first.deliver(), second.deliver())
        assert sum(shares) == 3 * MAX_CONCURRENT
        ids = [asked.headers["webhook-id"] for asked in other.asked]
        assert len(ids) == len(set(ids)) == 3 * MAX_CONCURRENT
        assert {one.status for one in await first.deliveries()} == {DeliveryStatus.DELIVERED}


async def test_a_letter_in_somebodys_hands_is_nobody_elses_until_the_lease_is_over(
    world: World, clock: Clock
) -> None:
    async with told(world, never, TAKEN) as (other, teller):
        await a_review(teller.agent)
        slow = asyncio.create_task(deliver_notifications(teller.call))
        async with asyncio.timeout(5):
            await other.heard.wait()
        assert await teller.deliver() == 0
        clock.advance(seconds=LEASE.total_seconds())
        assert await teller.deliver() == 1
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        (taken,) = await teller.deliveries()
    assert (taken.status, taken.attempt) == (DeliveryStatus.DELIVERED, 2)
