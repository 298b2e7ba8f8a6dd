"""Group commit: concurrent writes of an org share a transaction; a failing write fails alone."""

import asyncio
from uuid import UUID

import psycopg
import pytest

from grouped_calls import busy_org, no_effect
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook.errors import Unavailable
from waybook.store.driver import group_commit
from waybook.store.driver.connection import Message, Results, StaleCache
from waybook.store.driver.database import Database
from waybook.store.driver.group_commit import MAX_IN_FLIGHT, Call
from waybook.store.driver.queries import Query

#: Query for the id of the transaction, its org, and the parameter `text`.
REPORT = Query("report", "select pg_current_xact_id()::text, app_org(), %(text)s::text as text")
STALE = "select app_refuse_unless(false, 'WB001')"
LONG_TIME_SECONDS = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait without a limit, so that no timeout sends a group early."""
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", LONG_TIME_SECONDS)


def start(database: Database, org_id: UUID, name: str, *statements: str) -> asyncio.Task[Results]:
    """Start a call on the plan `name`; its result contains the id of its transaction."""
    call = Call(org_id, name, [REPORT(text=name), *statements], no_effect)
    return asyncio.create_task(database.commit(call))


async def start_group(
    database: Database, org_id: UUID, *calls: tuple[str, ...]
) -> list[asyncio.Task[Results]]:
    """Start calls that the driver sends as one group."""
    async with busy_org(database, org_id, len(calls)):
        return [start(database, org_id, *call) for call in calls]


async def test_calls_that_wait_for_earlier_answers_share_a_transaction(
    own_world: OrgEnv,
) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    names = [f"plan {n}" for n in (3, 1, 4, 2)]
    results = await asyncio.gather(*await start_group(database, org_id, *[(n,) for n in names]))
    rows = [row for ((row,),) in results]
    assert [row[2] for row in rows] == names
    assert {row[1] for row in rows} == {org_id}
    assert len({row[0] for row in rows}) == 1
    assert database._groups._orgs == {}


async def test_calls_of_the_same_event_loop_cycle_share_a_transaction(own_world: OrgEnv) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    calls = [Call(org_id, n, [REPORT(text=n)], no_effect, waits=True) for n in ("a", "b", "c")]
    results = await asyncio.gather(*map(database.commit, calls))
    assert [rows[0][0][2] for rows in results] == ["a", "b", "c"]
    assert len({rows[0][0][0] for rows in results}) == 1
    assert database._groups._orgs == {}


async def test_calls_of_two_orgs_never_share_a_transaction(own_world: OrgEnv) -> None:
    database = own_world.database
    orgs = [own_world.agent.org_id, own_world.other_org.org_id]
    async with busy_org(database, orgs[0], 3), busy_org(database, orgs[1], 3):
        tasks = [start(database, org, f"plan {n}") for n in range(3) for org in orgs]
    reported = {rows[0][0][:2] for rows in await asyncio.gather(*tasks)}
    assert len({transaction for transaction, _ in reported}) == 2
    assert {org for _, org in reported} == {*orgs}


async def test_failing_call_in_shared_transaction_does_not_affect_other_calls(
    own_world: OrgEnv,
) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    tasks = await start_group(
        database, org_id, ("a",), ("b", STALE), ("c",), ("d", "select no_such_column")
    )
    first, stale, third, wrong = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(stale, StaleCache)
    assert isinstance(wrong, psycopg.errors.UndefinedColumn)
    assert isinstance(first, list)
    assert isinstance(third, list)
    assert first[0][0][0] != third[0][0][0]


async def test_two_calls_on_the_same_plan_never_share_a_transaction(own_world: OrgEnv) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    tasks = await start_group(database, org_id, ("a",), ("a",), ("b",))
    first, second, other = [rows[0][0][0] for rows in await asyncio.gather(*tasks)]
    assert first == other
    assert first != second


async def test_locked_row_delays_no_other_call_of_the_shared_transaction(
    own_world: OrgEnv,
) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    await own_world.agent.plan(1)
    async with database.org_transaction(org_id) as tx:
        lock = f"select from plan where org_id = '{org_id}' for update"
        await tx.send(lock)
        tasks = await start_group(database, org_id, ("a", lock), ("b",), ("c",))
        await asyncio.gather(*tasks[1:])
        assert not tasks[0].done()
    assert (await tasks[0])[0][0][2] == "a"


@pytest.mark.parametrize("pooled", [False, True])
async def test_lock_timeout_is_short_only_in_shared_transactions(
    own_world: OrgEnv, *, pooled: bool
) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    database.wire.pooled = pooled
    show = "show lock_timeout"
    tasks = await start_group(database, org_id, ("a", show), ("b", show))
    assert [rows[1] for rows in await asyncio.gather(*tasks)] == [[("50ms",)]] * 2
    (alone,) = await start_group(database, org_id, ("a", show))
    assert (await alone)[1] == [("5s",)]
    assert (await start(database, org_id, "a", show))[1] == [("5s",)]


async def test_call_canceled_before_the_shared_transaction_is_not_sent(own_world: OrgEnv) -> None:
    database, org_id = own_world.database, own_world.agent.org_id
    committed: list[str] = []
    async with busy_org(database, org_id, 2):
        call = Call(org_id, "a", [REPORT(text="a")], lambda: committed.append("a"))
        canceled = asyncio.create_task(database.commit(call))
        other = start(database, org_id, "b")
        await asyncio.sleep(0)
        canceled.cancel()
        await asyncio.gather(canceled, return_exceptions=True)
    assert (await other)[0][0][2] == "b"
    assert canceled.cancelled()
    assert committed == []


def end_blocked(place: ServerDatabase) -> None:
    """Wait until a database process waits for the advisory lock 79, and end this process."""
    ending = """select pg_terminate_backend(pid, 5000) from pg_locks
                 where locktype = 'advisory' and objid = 79 and not granted"""
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        while not admin.execute(ending).fetchall():
            continue


async def test_broken_connection_fails_every_call_of_the_shared_transaction(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "SET_LOCK_TIMEOUT", "set local lock_timeout = '60s'")
    database, org_id = own_world.database, own_world.agent.org_id
    lock = "select pg_advisory_xact_lock(79)"
    async with database.org_transaction(org_id) as tx:
        await tx.send(lock)
        tasks = await start_group(database, org_id, ("a",), ("b", lock), ("c",))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.to_thread(end_blocked, own_world.place)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, Unavailable)
        assert "Repeat it with the same idempotencyKey" in outcome.message
    assert (await start(database, org_id, "d"))[0][0][2] == "d"


class RecordedWrites:
    """Fake database that records the statements sent, and answers when `may_answer` is set."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.may_answer = asyncio.Event()
        self._changed = asyncio.Condition()

    async def reached(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.messages) >= count)

    async def __call__(self, _org_id: UUID, statements: Message) -> Results:
        self.messages.append(statements)
        async with self._changed:
            self._changed.notify_all()
        await self.may_answer.wait()
        return [[(statement,)] for statement in statements]


async def run_calls(writes: RecordedWrites, *calls: Call) -> list[Results]:
    """Make calls while the maximum number of earlier calls awaits answers; return the results."""
    groups = group_commit.GroupCommit(writes)
    blocking = [Call(calls[0].org_id, f"x{n}", ["x"], no_effect) for n in range(MAX_IN_FLIGHT)]
    tasks = [asyncio.create_task(groups.commit(call)) for call in (*blocking, *calls)]
    for _ in range(3):
        await asyncio.sleep(0)
    writes.may_answer.set()
    return (await asyncio.gather(*tasks))[MAX_IN_FLIGHT:]


ORG = UUID(int=1)


async def test_calls_of_a_shared_transaction_are_sent_in_order_of_plan_ids() -> None:
    writes = RecordedWrites()
    names = ["b", "c", "a"]
    results = await run_calls(writes, *[Call(ORG, n, [f"{n}1", f"{n}2"], no_effect) for n in names])
    lock_timeout = group_commit.SET_LOCK_TIMEOUT
    assert writes.messages[-1] == [lock_timeout, "a1", "a2", "b1", "b2", "c1", "c2"]
    assert results == [[[(f"{n}1",)], [(f"{n}2",)]] for n in names]


async def test_calls_waiting_too_long_are_sent_before_earlier_calls_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", 0.0)
    writes = RecordedWrites()
    groups = group_commit.GroupCommit(writes)
    calls = [Call(ORG, f"{n}", ["x"], no_effect) for n in range(MAX_IN_FLIGHT + 2)]
    tasks = [asyncio.create_task(groups.commit(call)) for call in calls]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await writes.reached(MAX_IN_FLIGHT + 1)
    writes.may_answer.set()
    await asyncio.gather(*tasks)
