"""Calls on a cached run: they change its state one after the other, and commit in batches."""

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from waybook.errors import Unavailable
from waybook.run.model import Run
from waybook.store.audit import ChainHead
from waybook.store.driver.connection import DroppedDecision, KeyConflict, Message, StaleCache
from waybook.store.driver.queries import raw_statement
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.inputs import DocumentCache
from waybook.store.runs.load import RunBriefRow
from waybook.store.runs.pipeline import DecidedCall
from waybook.store.runs.slots import RunSlot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOCUMENTS = DocumentCache()


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
        documents=DOCUMENTS,
    )


def make_slot() -> RunSlot:
    slot = RunSlot()
    slot.cached = make_state(1)
    return slot


class Sender:
    """Fake database that records the statements of each commit, or raises a given error."""

    def __init__(self, *errors: BaseException | None) -> None:
        """Create a fake database; `errors` has an error to raise, or None, for each commit."""
        self.messages: list[list[str]] = []
        self.errors = [*errors]
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, statements: Message) -> None:
        await asyncio.sleep(0)  # Other calls can run during a commit.
        await self.gate.wait()
        self.messages.append([*map(str, statements)])
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


async def work(slot: RunSlot, send: Sender, name: str) -> None:
    """Make a call that changes the state of the run."""
    await slot.turns.join()
    before = slot.state
    assert before is not None
    after = make_state(before.run.seq + 1)
    await slot.pipeline.commit(DecidedCall(before, after, (), [raw_statement(name)], send))


def start(*calls: Coroutine[None, None, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(call) for call in calls]


async def let_run(turns: int = 3) -> None:
    """Let other tasks run for this many iterations of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def outcomes(*calls: asyncio.Task[None]) -> list[type[object]]:
    """Return the type of the result or error of each call."""
    return [type(outcome) for outcome in await asyncio.gather(*calls, return_exceptions=True)]


async def test_call_that_locks_the_run_waits_until_earlier_calls_committed() -> None:
    slot, send = make_slot(), Sender()

    async def lock() -> None:
        await slot.turns.take()
        assert (slot.cached, slot.pipeline.is_sending) == (make_state(4), False)
        send.messages.append(["lock"])
        await asyncio.sleep(0)
        slot.turns.end()

    names = ("1", "2")
    await asyncio.gather(
        work(slot, send, "0"),
        *(work(slot, send, name) for name in names),
        lock(),
        *(work(slot, send, name) for name in names),
    )
    sent = [name for message in send.messages for name in message]
    assert sent == ["0", "1", "2", "lock", "1", "2"]


async def test_commits_do_not_wait_for_a_call_that_changes_nothing() -> None:
    slot, send = make_slot(), Sender()
    send.gate.clear()
    calls = start(work(slot, send, "1"), work(slot, send, "2"))
    await slot.turns.join()
    alone = asyncio.create_task(slot.turns.take())
    send.gate.set()
    await asyncio.gather(*calls)
    assert not alone.done()
    slot.turns.leave()
    await alone


async def test_canceling_a_call_discards_later_uncommitted_changes() -> None:
    slot, send = make_slot(), Sender()
    send.gate.clear()
    first, *others = start(*(work(slot, send, name) for name in ("0", "1", "2")))
    await let_run()
    first.cancel()
    assert await outcomes(first, *others) == [asyncio.CancelledError, *[DroppedDecision] * 2]
    assert (send.messages, slot.cached, slot.is_in_use) == ([], None, False)


async def test_later_calls_continue_after_canceled_wait_for_the_lock() -> None:
    slot, send = make_slot(), Sender()
    send.gate.clear()
    first = asyncio.create_task(work(slot, send, "0"))
    await let_run()
    alone = asyncio.create_task(slot.turns.take())
    await let_run()
    behind = asyncio.create_task(work(slot, send, "1"))
    await let_run()
    assert slot.state == make_state(2)
    alone.cancel()
    await let_run()
    assert slot.state == make_state(3)
    send.gate.set()
    await asyncio.gather(first, behind)
    assert not slot.is_in_use


class Fault(Enum):
    """Ways in which a commit can fail."""

    NONE = auto()
    OTHER_PROCESS = auto()
    USED_KEY = auto()
    LOST_MESSAGE = auto()
    LOST_ANSWER = auto()
    REJECTED_VALUE = auto()


class FakeDatabase:
    """Fake database with one run; it accepts only changes of the newest state, and may fail."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.seq = 1
        self.committed: list[str] = []
        self._faults = iter(faults)

    async def __call__(self, statements: Message) -> None:
        await asyncio.sleep(0)
        fault = next(self._faults, Fault.NONE)
        if fault is Fault.OTHER_PROCESS:
            self.seq += 1
        names = [str(statement) for statement in statements]
        if int(names[0].split()[1]) != self.seq:
            raise StaleCache
        if fault is Fault.USED_KEY:
            raise KeyConflict("key")
        if fault is Fault.LOST_MESSAGE:
            raise Unavailable("lost")
        if fault is Fault.REJECTED_VALUE:
            raise ValueError("rejected")
        self.seq += len(names)
        self.committed += names
        if fault is Fault.LOST_ANSWER:
            raise Unavailable("lost")


@given(
    st.lists(st.sampled_from(Fault), max_size=12),
    st.lists(st.integers(0, 2), min_size=1, max_size=20),
)
def test_committed_changes_are_in_order_and_match_the_reported_outcomes(
    faults: list[Fault], pauses: list[int]
) -> None:
    reported, unknown, attempts = list[str](), list[str](), count()

    async def call(slot: RunSlot, database: FakeDatabase, pause: int) -> None:
        await let_run(pause)
        while True:
            await slot.turns.join()
            before = slot.state
            if before is None:
                slot.turns.leave()
                await slot.turns.take()
                slot.cached = make_state(database.seq)
                slot.turns.end()
                continue
            name = f"{next(attempts)} {before.run.seq}"
            after = make_state(before.run.seq + 1)
            try:
                decided = DecidedCall(before, after, (), [raw_statement(name)], database)
                await slot.pipeline.commit(decided)
            except Unavailable:
                unknown.append(name)
            except (StaleCache, KeyConflict, DroppedDecision, ValueError):
                continue
            else:
                reported.append(name)
            return

    async def work_on() -> None:
        slot, database = make_slot(), FakeDatabase(faults)
        await asyncio.gather(*(call(slot, database, pause) for pause in pauses))
        assert not slot.is_in_use
        seqs = [int(name.split()[1]) for name in database.committed]
        assert seqs == sorted({*seqs})
        assert {*reported} <= {*database.committed} <= {*reported, *unknown}
        assert slot.cached is None or slot.cached.run.seq <= database.seq

    asyncio.run(work_on())
