"""The log of tool calls contains every call except `ping`, unless the log's queue is full."""

import asyncio

import psycopg
import pytest

from org_env import AgentClient, OrgEnv
from patience import PATIENCE_SECONDS
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.loops import log_calls_for_ever
from waybook.store import calls
from waybook.store.calls import CallLog

COLUMNS = "tool, actor, channel, session, is_error, error_code, replayed"


async def logged(world: OrgEnv) -> list[tuple[object, ...]]:
    query = f"select {COLUMNS} from mcp_tool_call_log order by at, is_error, replayed, id"  # noqa: S608 - names from above
    return (await world.database.read_org(world.agent.org_id, query))[0]


async def test_call_log_records_caller_tool_and_outcome(world: OrgEnv, agent: AgentClient) -> None:
    plan = await agent.plan(1, sessionId="s", idempotencyKey="k")
    await agent.plan(1, sessionId="s", idempotencyKey="k")
    await agent.refused("get_next_step", planId="nope")
    assert plan
    assert await logged(world) == []
    await world.dispatcher.calls.flush()
    assert await logged(world) == [
        ("create_research_plan", "ann", "mcp", "s", False, None, False),
        ("create_research_plan", "ann", "mcp", "s", False, None, True),
        ("get_next_step", "ann", "mcp", None, True, "NOT_FOUND", False),
    ]


async def test_call_log_records_duration_and_byte_counts_of_call(
    world: OrgEnv, agent: AgentClient
) -> None:
    await agent.call("list_active_plans", limit=5)
    await world.dispatcher.calls.flush()
    query = "select duration_ms, request_bytes, response_bytes from mcp_tool_call_log"
    ((duration, request, response),) = (await world.database.read_org(agent.org_id, query))[0]
    assert duration > 0
    assert request == len('{"limit":5}')
    assert response > 50


async def test_call_log_records_blank_session_as_null(world: OrgEnv, agent: AgentClient) -> None:
    await agent.plan(1, sessionId="", idempotencyKey="")
    await agent.plan(1, sessionId="  ", idempotencyKey="  ")
    await world.dispatcher.calls.flush()
    # A blank idempotency key counts as absent, so the second call is not a repetition.
    row = ("create_research_plan", "ann", "mcp", None, False, None, False)
    assert await logged(world) == [row, row]


async def test_call_log_records_step_id_of_call(world: OrgEnv, agent: AgentClient) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    await agent.call("get_step_context", stepId=taken["stepId"].upper())
    await agent.refused("submit_step_result", stepId="no id at all", resultSummary=1)
    await agent.submit(taken)
    await world.dispatcher.calls.flush()
    query = "select tool, step_id::text from mcp_tool_call_log"
    (rows,) = await world.database.read_org(agent.org_id, query)
    assert sorted(rows, key=str) == [
        ("create_research_plan", None),
        ("get_next_step", taken["stepId"]),
        ("get_step_context", taken["stepId"]),
        ("submit_step_result", taken["stepId"]),
        ("submit_step_result", None),
    ]


async def test_call_log_with_full_queue_drops_and_counts_new_entries(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_QUEUED", 3)
    log = CallLog(world.database)
    agent = AgentClient(ServerDispatcher(world.dispatcher.services, log), world.agent.caller)
    for _ in range(5):
        await agent.call("list_skills")
    assert log.dropped == 2
    assert log.dropped_of == {world.agent.org_id: 2}
    await log.flush()
    assert len(await logged(world)) == 3
    await agent.call("list_skills")
    await log.flush()
    assert (len(await logged(world)), log.dropped) == (4, 2)


async def test_call_log_writes_queued_calls_in_background(
    world: OrgEnv, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "BATCH_DELAY_SECONDS", 0)
    for _ in range(20):
        await agent.call("list_skills")
    writing = asyncio.create_task(
        log_calls_for_ever(world.dispatcher.services, world.dispatcher.calls)
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(await logged(world)) < 20:  # noqa: ASYNC110 - no event tells when it is written
            await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert world.dispatcher.calls.dropped == 0


async def test_call_succeeds_while_call_log_cannot_be_written(
    world: OrgEnv, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.dispatcher.calls.flush()
    await agent.call("list_skills")
    await agent.call("list_skills")
    monkeypatch.setattr(world.database.wire, "lock_timeout", "50ms")
    monkeypatch.setattr(world.database.wire, "pooled", True)
    with psycopg.connect(world.place.owner_dsn) as owner:
        owner.execute("lock table mcp_tool_call_log in access exclusive mode")
        await world.dispatcher.calls.flush()
    assert world.dispatcher.calls.dropped == 2
    assert (await agent.call("list_skills"))["skills"]


async def test_call_log_does_not_store_call_arguments(world: OrgEnv, agent: AgentClient) -> None:
    await agent.plan(1, name="a secret name")
    await world.dispatcher.calls.flush()
    query = "select l::text from mcp_tool_call_log l"
    (rows,) = await world.database.read_org(agent.org_id, query)
    assert not [row for row in rows if "secret" in str(row[0])]


async def test_call_statistics_count_at_most_the_requested_number_of_calls(
    world: OrgEnv, agent: AgentClient
) -> None:
    for _ in range(2):
        for _ in range(3):
            await agent.call("list_skills")
        await agent.refused("get_next_step", planId="nope")
        await world.dispatcher.calls.flush()

    async def counted(most: int) -> dict[str, tuple[int, int]]:
        statement = calls.SQL["calls_by_tool"](seconds=60, most=most)
        (rows,) = await world.database.read_org(agent.org_id, statement)
        return {row.tool: (row.calls, row.errors) for row in rows}

    assert await counted(100) == {"list_skills": (6, 0), "get_next_step": (2, 2)}
    assert sum(each[0] for each in (await counted(3)).values()) == 3
