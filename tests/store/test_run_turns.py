"""Turns of calls on one run, and batches of calls that share a turn."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime

import pytest

from waybook.run.model import Run
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import Statement, raw_statement
from waybook.store.driver.wire import KeyConflict, StaleCache
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.inputs import DocumentCache
from waybook.store.runs.rows import RunBriefRow
from waybook.store.runs.slots import RunSlot
from waybook.store.runs.turns import MAX_CALLS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_state(seq: int) -> CachedRun:
    run = Run(id="r", name="Run", seq=seq, completed_at=None, stages={}, steps={})
    head, brief = ChainHead(seq, b"", NOW), RunBriefRow("x", NOW, "ann")
    return CachedRun(
        run=run,
        dag_slug="d",
        dag_version=1,
        head=head,
        brief=brief,
        held={},
        free={},
        documents=DocumentCache(),
    )


def make_slot() -> RunSlot:
    slot = RunSlot()
    slot.cached = make_state(1)
    return slot


class Sender:
    """Stand-in for the database, which stores each message and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.messages: list[list[str]] = []
        self.error = error
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, statements: list[Statement]) -> None:
        await asyncio.sleep(0)  # A message to the database always lets other calls run.
        await self.gate.wait()
        self.messages.append([*map(str, statements)])
        if self.error is not None:
            raise self.error


async def work(slot: RunSlot, send: Sender, name: str) -> None:
    """Join a batch, decide on its state, and commit."""
    batch = await slot.turns.join()
    assert batch.state is not None
    after = make_state(batch.state.run.seq + 1)
    await batch.commit(after, (), [raw_statement(name)], send)


def start(*calls: Coroutine[None, None, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(call) for call in calls]


async def test_calls_that_wait_together_are_committed_in_a_single_message() -> None:
    slot, send = make_slot(), Sender()
    await asyncio.gather(*(work(slot, send, str(number)) for number in range(4)))
    assert send.messages == [["0"], ["1", "2", "3"]]
    assert slot.cached is not None
    assert slot.cached.run.seq == 5
    assert not slot.is_in_use


async def test_batch_has_a_limited_number_of_calls() -> None:
    slot, send = make_slot(), Sender()
    await asyncio.gather(*(work(slot, send, str(number)) for number in range(MAX_CALLS + 3)))
    assert [len(message) for message in send.messages] == [1, MAX_CALLS, 2]


async def test_call_with_a_turn_alone_is_in_no_batch() -> None:
    slot, send = make_slot(), Sender()

    async def lock() -> None:
        await slot.turns.take()
        send.messages.append(["lock"])
        slot.turns.end()

    names = ("1", "2")
    await asyncio.gather(
        work(slot, send, "0"),
        *(work(slot, send, name) for name in names),
        lock(),
        *(work(slot, send, name) for name in names),
    )
    assert send.messages == [["0"], ["1", "2"], ["lock"], ["1", "2"]]


async def test_call_leaving_a_batch_does_not_stop_other_calls() -> None:
    slot, send = make_slot(), Sender()
    await slot.turns.take()
    calls = start(work(slot, send, "1"), work(slot, send, "2"))
    leaving = asyncio.create_task(slot.turns.join())
    await asyncio.sleep(0)
    slot.turns.end()
    (await leaving).leave()
    await asyncio.gather(*calls)
    assert send.messages == [["1", "2"]]


async def test_canceled_calls_neither_stop_a_batch_nor_keep_the_turn() -> None:
    slot, send = make_slot(), Sender()
    send.gate.clear()
    await slot.turns.take()
    waiting, writing, other = start(*(work(slot, send, name) for name in ("w", "1", "2")))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    slot.turns.end()
    for _ in range(3):
        await asyncio.sleep(0)
    writing.cancel()
    send.gate.set()
    await other
    assert send.messages == [["1", "2"]]
    assert (waiting.cancelled(), writing.cancelled(), slot.is_in_use) == (True, True, False)


@pytest.mark.parametrize("calls", [1, 3])
async def test_failed_batch_reports_the_error_to_all_calls_and_drops_the_run(calls: int) -> None:
    slot, send = make_slot(), Sender(StaleCache())
    await slot.turns.take()
    started = start(*(work(slot, send, str(number)) for number in range(calls)))
    await asyncio.sleep(0)
    slot.turns.end()
    outcomes = await asyncio.gather(*started, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StaleCache] * calls
    assert (len(send.messages), slot.cached, slot.is_in_use) == (1, None, False)


async def test_unexpected_error_makes_all_calls_of_a_batch_run_again() -> None:
    """One call may be the cause, for example with a value that the database rejects."""
    slot, send = make_slot(), Sender(ValueError("rejected"))
    await slot.turns.take()
    started = start(*(work(slot, send, str(number)) for number in range(2)))
    await asyncio.sleep(0)
    slot.turns.end()
    outcomes = await asyncio.gather(*started, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StaleCache] * 2
    slot.cached = make_state(1)
    with pytest.raises(ValueError, match="rejected"):
        await work(slot, send, "alone")


async def test_batch_with_a_used_key_keeps_the_cached_run() -> None:
    slot, send = make_slot(), Sender(KeyConflict("key"))
    before = slot.cached
    with pytest.raises(KeyConflict):
        await work(slot, send, "1")
    assert slot.cached is before
