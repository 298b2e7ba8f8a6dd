"""Processes killed during a call: committed changes survive, uncommitted ones leave no rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acceptance.crashing_process import crashing_process, read_marker
from org_env import AgentClient, Body, OrgEnv
from preloaded_process import PreloadedProcess

#: Script that makes a tool call and stops before or after the commit. It prints where it stopped,
#: and waits to be killed.
WORKER = """
import asyncio, json, sys
from uuid import UUID
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.store.calls import CallLog
from waybook.store.driver.database import ConnectionPool, Database, Transaction
from waybook.app.request.caller import Caller
from waybook.app.request.services import Services

dsn, role, org, moment, tool, arguments = sys.argv[1:]
commit = Transaction.commit


def say(word):
    print(word, flush=True)
    sys.stdin.read()


async def stopping(tx, *statements):
    if not any(str(statement).startswith("update plan") for statement in statements):
        return await commit(tx, *statements)
    if moment == "before":
        await tx.send(*statements)
        say("written, not committed")
    answer = await commit(tx, *statements)
    if moment == "after":
        say("committed, not answered")
    return answer


async def main():
    Transaction.commit = stopping
    database = Database(ConnectionPool(dsn), role=role or None)
    dispatcher = ServerDispatcher(Services(database=database), CallLog(database))
    caller = Caller(org_id=UUID(org), user="ann", channel=Channel.MCP)
    answer = await dispatcher.dispatch(caller, tool, json.loads(arguments))
    print(json.dumps(answer.body), flush=True)
    sys.stdin.read()


asyncio.run(main())
"""


@contextmanager
def open_worker(
    world: OrgEnv, moment: str, tool: str, **arguments: object
) -> Iterator[PreloadedProcess]:
    """Start a process that calls a tool and pauses at `moment`; kill it at the end."""
    place = world.place
    named = [place.app_dsn, place.server.role or "", str(world.agent.org_id)]
    with crashing_process(WORKER, *named, moment, tool, json.dumps(arguments)) as process:
        yield process


async def resumed(agent: AgentClient, plan: Body, session: str) -> Body:
    """Return the step that a new process gives to an agent with the same session name."""
    await agent.call("get_research_context", planId=plan["planId"], sessionId=session)
    return await agent.take(plan, sessionId=session)


@pytest.mark.parametrize("key", [{}, {"idempotencyKey": "k"}])
async def test_get_next_step_writes_nothing_if_process_dies_before_commit(
    world: OrgEnv, agent: AgentClient, key: Body
) -> None:
    plan = await agent.plan(2)
    before = await world.stored(agent.org_id, plan["planId"])
    args = {"planId": plan["planId"], "sessionId": "s", **key}
    with open_worker(world, "before", "get_next_step", **args) as worker:
        assert await read_marker(worker) == "written, not committed"
    assert await world.stored(agent.org_id, plan["planId"]) == before
    taken = await agent.take(plan, sessionId="s", **key)
    assert (taken["stepOrder"], "resumed" in taken, "replayed" in taken) == (1, False, False)


async def test_session_resumes_claimed_step_if_process_dies_after_commit(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    args = {"planId": plan["planId"], "sessionId": "s"}
    with open_worker(world, "after", "get_next_step", **args) as worker:
        assert await read_marker(worker) == "committed, not answered"
    taken = await resumed(agent, plan, "s")
    assert (taken["stepId"], taken["resumed"]) == (plan["stepIds"][0], True)
    assert (await agent.submit(taken, sessionId="s"))["progress"]["done"] == 1


async def test_retried_submit_returns_stored_reply_if_process_died_after_commit(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="s")
    args = {
        "stepId": taken["stepId"],
        "attempt": 1,
        "resultSummary": "found",
        "idempotencyKey": "once",
        "sessionId": "s",
    }
    with open_worker(world, "after", "submit_step_result", **args) as worker:
        assert await read_marker(worker) == "committed, not answered"
    again = await agent.call("submit_step_result", **args)
    assert (again["replayed"], again["progress"]["done"]) == (True, 1)
    assert (await resumed(agent, plan, "s"))["stepOrder"] == 2


async def test_session_resumes_step_if_process_dies_before_result_is_committed(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan, sessionId="s")
    args = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": "found"}
    with open_worker(world, "before", "submit_step_result", **args) as worker:
        assert await read_marker(worker) == "written, not committed"
    again = await resumed(agent, plan, "s")
    assert (again["stepId"], again["attempt"]) == (taken["stepId"], 1)
    assert (await agent.submit(again))["planStatus"] == "completed"
