"""Concurrency limiter: a few slots per org, assigned in order of arrival, and never lost."""

import asyncio
from contextlib import AsyncExitStack

from patience import PATIENCE_SECONDS
from waybook.transport.http.rate_limits import ConcurrencyLimiter

LONG = 3_600.0


async def begin(places: ConcurrencyLimiter, org: str, begun: list[str], end: asyncio.Event) -> None:
    """Take a slot of the limiter, record the org, and keep the slot until the event is set."""
    async with places.slot(org):
        begun.append(org)
        await end.wait()


async def settled() -> None:
    """Let every asyncio task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_flooding_org_does_not_delay_another_org() -> None:
    places, begun, end = ConcurrencyLimiter(4, LONG), list[str](), asyncio.Event()
    flood = [asyncio.create_task(begin(places, "theirs", begun, end)) for _ in range(50)]
    await settled()
    assert begun == ["theirs"] * 4
    other = asyncio.create_task(begin(places, "ours", begun, end))
    await settled()
    assert begun[4:] == ["ours"]
    end.set()
    await asyncio.gather(*flood, other)
    assert begun.count("theirs") == 50


async def test_request_slot_released_twice_admits_only_a_single_request() -> None:
    places, begun, end = ConcurrencyLimiter(1, LONG), list[str](), asyncio.Event()
    async with places.slot("ours") as give_up:
        waiting = [asyncio.create_task(begin(places, "ours", begun, end)) for _ in range(2)]
        await settled()
        assert begun == []
        give_up()
        give_up()
        await settled()
        assert len(begun) == 1
    await settled()
    assert len(begun) == 1
    end.set()
    await asyncio.gather(*waiting)


async def test_request_slot_held_too_long_admits_the_next_request() -> None:
    places = ConcurrencyLimiter(1, patience=0)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(3):
            await stack.enter_async_context(places.slot("ours"))


async def test_canceled_waiting_request_loses_no_slot() -> None:
    places, begun, end = ConcurrencyLimiter(1, LONG), list[str](), asyncio.Event()
    async with places.slot("ours"):
        waiting = [asyncio.create_task(begin(places, "ours", begun, end)) for _ in range(3)]
        await settled()
        waiting[0].cancel()
    waiting[1].cancel()  # The limiter has just assigned the free slot to this task.
    end.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(begun) in {1, 2}
    async with asyncio.timeout(PATIENCE_SECONDS), places.slot("ours"):
        pass
