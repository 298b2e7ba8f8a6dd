"""The driver sends the org of the transaction with every SQL statement (decision 0087).

All orgs that use a connection share its prepared statements.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from org_env import AgentClient, OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.store.driver.connection import DbConnection, Message, Results, StaleCache
from waybook.store.driver.queries import Query, Statement
from waybook.store.plans.load import SQL

#: Number of executions of each statement. PostgreSQL makes a new query plan for each of the first
#: five executions of a prepared statement, and may then use one query plan for all values.
ROUNDS = 8
OURS, THEIRS = "Text of the first org.", "Text of the second org."


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Statement]]:
    """Yield a list of the statements with an org parameter, in the order in which they are sent."""
    send, statements = DbConnection.send, list[Statement]()

    async def recording(line: DbConnection, opening: Message, message: Message) -> Results:
        statements.extend(s for s in message if isinstance(s, Statement) and s.form.takes_org)
        return await send(line, opening, message)

    with monkeypatch.context() as patch:
        patch.setattr(DbConnection, "send", recording)
        yield statements


async def work(agent: AgentClient, text: str) -> None:
    """Create a plan, claim its steps and submit results."""
    plan = await agent.plan(3, name=text)
    for _ in range(3):
        taken = await agent.take(plan, sessionId="main")
        await agent.call("get_step_context", stepId=taken["stepId"])
        await agent.submit(taken, {"found": text}, sessionId="main")


async def rows_of(world: OrgEnv, agent: AgentClient, statement: Statement) -> list[Any] | None:
    """Execute a statement in a transaction of the agent's org, roll back, and return the rows.

    Return None if the statement raises `StaleCache`.
    """
    try:
        async with world.database.org_transaction(agent.org_id) as tx:
            (rows,) = await tx.send(statement)
    except StaleCache:
        return None
    return rows


async def test_prepared_statements_see_only_rows_of_the_current_org(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_env(shared_place, pool_size=1) as world:
        world.other_org_may_change = True
        with recorded(monkeypatch) as ours:
            await work(world.agent, OURS)
        with recorded(monkeypatch) as theirs:
            await work(world.other_org, THEIRS)
        reads = {s.form.name: s for s in ours if s.form.text.startswith(b"select")}
        of_others = {s.form.name: s for s in theirs if s.form.text.startswith(b"select")}
        assert len(reads) > 5
        with_text = 0
        for name, statement in reads.items():
            own = await rows_of(world, world.agent, statement)
            with_text += OURS in repr(own)
            for _ in range(ROUNDS):
                foreign = await rows_of(world, world.other_org, statement)
                assert OURS not in repr(foreign), name
                assert await rows_of(world, world.agent, statement) == own, name
                if name in of_others:
                    await rows_of(world, world.other_org, of_others[name])
        assert with_text


async def test_change_to_a_row_of_another_org_has_no_effect(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_env(shared_place, pool_size=1) as world:
        with recorded(monkeypatch) as ours:
            await work(world.agent, OURS)
        changes = [s for s in ours if s.form.text.startswith((b"update", b"delete"))]
        assert changes
        for statement in changes:
            async with world.database.org_transaction(world.other_org.org_id) as tx:
                await tx.commit(statement)
    # At the end of the test, `make_env` compares the rows of both orgs with their audit.


async def test_query_for_rows_of_another_org_returns_no_rows(world: OrgEnv) -> None:
    """Row-level security hides the rows of the other org, even from a query that asks for them."""
    await world.agent.plan(1)
    query = Query("plans_of", "select id from plan where org_id = %(of)s::uuid")
    for _ in range(ROUNDS):
        for agent in (world.agent, world.other_org):
            for asked in (world.agent, world.other_org):
                (rows,) = await world.database.read_org(agent.org_id, query(of=asked.org_id))
                assert bool(rows) == (asked is agent)


async def test_query_that_needs_the_org_fails_if_no_org_is_set(world: OrgEnv) -> None:
    statement = SQL["plan_of_step"](step_id=world.agent.org_id)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="no org"):
        await world.database.read_global(statement)
