"""Connections that break between two SQL statements, and processes killed during a tool call.

Nothing may be lost or duplicated, and the next caller must be able to continue.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

from acceptance.crashing_process import crashing_process, read_marker
from org_env import AgentClient, Body, OrgEnv, make_env, open_test_database
from patience import PATIENCE_SECONDS
from postgres_servers import Server, new_database
from preloaded_process import PreloadedProcess
from report_invariants import check
from run_documents import available, make_run_of_three_steps, pages, render_all
from waybook.app.request.services import Services
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.errors import Unavailable
from waybook.store.calls import CallLog
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction

TABLES = (
    *("dag_definition", "run", "stage_run", "stage_step", "job", "job_part", "document"),
    *("rendered_document", "late_result", "audit_entry", "idempotency_answer"),
)


class Cut:
    """Patch of `Transaction.send` that sends statements one by one and breaks the connection.

    The connection breaks before the statement with the index `at`. If `at` and `last` are the
    number of statements, all statements are committed, but their results do not arrive.
    """

    def __init__(self, world: OrgEnv, patch: pytest.MonkeyPatch, at: int, last: int) -> None:
        self.sent = 0
        send = Transaction.send

        async def one_by_one(tx: Transaction, *statements: Any) -> Results:  # noqa: ANN401 - as the original
            results: Results = []
            for statement in statements:
                if self.sent == at:
                    ((row,),) = await send(tx, "select pg_backend_pid()")
                    await asyncio.to_thread(end_backend, world, row[0])
                self.sent += 1
                results += await send(tx, statement)
            if self.sent == at == last:
                raise Unavailable("the answer is lost")
            return results

        patch.setattr(Transaction, "send", one_by_one)


def end_backend(world: OrgEnv, pid: int) -> None:
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as admin:
        ended = admin.execute("select pg_terminate_backend(%s::integer, 10000)", (pid,)).fetchone()
    assert ended == (True,)


@asynccontextmanager
async def elsewhere(world: OrgEnv) -> AsyncIterator[AgentClient]:
    """Yield an agent with its own dispatcher and database pool, like one of another process."""
    async with open_test_database(world.place) as database:
        database.frozen_now = world.clock.now
        yield AgentClient(
            ServerDispatcher(Services(database=database), CallLog(database)), world.agent.caller
        )


async def counts(world: OrgEnv) -> list[int]:
    queries = [f"select count(*) from {table}" for table in TABLES]  # noqa: S608 - names from above
    return [rows[0][0] for rows in await world.database.read_org(world.agent.org_id, *queries)]


async def make_last_result(agent: AgentClient) -> tuple[Body, str, Body]:
    """Claim the last job of a step; return the run, and the tool and arguments to submit it."""
    run = await make_run_of_three_steps(agent)
    await agent.submit_documents(await agent.job(run))
    await agent.submit_documents(await agent.job(run))
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return run, "submit_job_result", {**held, "documents": [{"content": "# Found"}]}


async def make_claim(agent: AgentClient) -> tuple[Body, str, Body]:
    run = await make_run_of_three_steps(agent)
    return run, "get_next_job", {"runId": run["runId"]}


async def make_failure(agent: AgentClient) -> tuple[Body, str, Body]:
    run = await make_run_of_three_steps(agent)
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return run, "fail_job", {**held, "error": "No.", "retryable": True}


async def make_stages_feedback(agent: AgentClient) -> tuple[Body, str, Body]:
    run = await agent.run()
    await agent.work_off(run)
    named = {"runId": run["runId"], "stageSlug": "scope"}
    return run, "submit_stage_feedback", {**named, "feedback": "Go on."}


async def make_rewriting(agent: AgentClient) -> tuple[Body, str, Body]:
    run = await make_run_of_three_steps(agent)
    done = await agent.submit_documents(await agent.job(run))
    return run, "regenerate_document", {"documentId": done["documentIds"][0]}


async def make_late_result(agent: AgentClient) -> tuple[Body, str, Body]:
    run = await make_run_of_three_steps(agent)
    job = await agent.job(run)
    return (
        run,
        "submit_job_result",
        {"jobId": job["jobId"], "attempt": 7, "documents": [{"content": "late"}]},
    )


ACTS = [
    make_last_result,
    make_claim,
    make_failure,
    make_stages_feedback,
    make_rewriting,
    make_late_result,
]
Act = Callable[[AgentClient], Awaitable[tuple[Body, str, Body]]]


async def once(world: OrgEnv, act: Act) -> tuple[list[int], int]:
    """Call the tool without faults; return the new rows by table, and the number of statements."""
    _, tool, args = await act(world.agent)
    await world.agent.ask(tool, args)  # The first call caches the workflow definition.
    _, tool, args = await act(world.agent)
    before = await counts(world)
    with pytest.MonkeyPatch.context() as patch:
        cut = Cut(world, patch, -1, -1)
        await world.agent.ask(tool, {**args, "idempotencyKey": "once"})
    return difference(before, await counts(world)), cut.sent


def difference(before: list[int], after: list[int]) -> list[int]:
    return [now - was for was, now in zip(before, after, strict=True)]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_aborted_call_counts_only_once_when_retried(alone: OrgEnv, act: Act) -> None:
    world = alone
    effect, last = await once(world, act)
    assert last >= 8
    for at in range(last + 1):
        run, tool, args = await act(world.agent)
        keyed = {**args, "idempotencyKey": f"key {at}"}
        before = await counts(world)
        with pytest.MonkeyPatch.context() as patch:
            Cut(world, patch, at, last)
            answer = await world.agent.ask(tool, keyed)
        error: Any = answer.body["error"]
        assert (answer.is_error, error["code"]) == (True, "UNAVAILABLE"), at
        done = difference(before, await counts(world))
        assert done == (effect if at == last else [0] * len(TABLES)), at
        async with elsewhere(world) as agent:
            again = await agent.ask(tool, keyed)
            assert ("replayed" in again.body) == (at == last), at
            assert difference(before, await counts(world)) == effect, at
            if at % 5 == 0:
                await check_run_can_complete(agent, world, run)


async def check_run_can_complete(agent: AgentClient, world: OrgEnv, run: Body) -> None:
    """Complete the run; check that all documents are rendered and the report is valid."""
    while (reply := await agent.call("get_next_job", runId=run["runId"]))[
        "status"
    ] != "run_complete":
        if reply["status"] == "job_ready":
            await agent.submit_documents(reply)
        elif reply["status"] == "awaiting_feedback":
            await agent.feedback(run, reply["stageSlug"])
        else:
            world.clock.advance(minutes=16)
            agent.dispatcher.services.database.frozen_now = world.clock.now
    await render_all(agent)
    report: Any = await agent.progress(run, detail=True)
    assert check(report) == []
    for stage in report["stages"]:
        assert stage["documentsAvailable"] == stage["documentsExpected"]


async def make_unrendered_run(agent: AgentClient) -> Body:
    run = await make_run_of_three_steps(agent)
    assert (await agent.work_off(run))["status"] == "run_complete"
    return run


async def test_next_process_finishes_an_aborted_document_rendering(alone: OrgEnv) -> None:
    world, agent = alone, alone.agent
    run = await make_unrendered_run(agent)
    before = await counts(world)
    with pytest.MonkeyPatch.context() as patch:
        cut = Cut(world, patch, -1, -1)
        assert await render_all(agent) == 3
    effect, last = difference(before, await counts(world)), cut.sent
    assert last >= 10
    for at in range(last):
        run = await make_unrendered_run(agent)
        report: Any = await agent.progress(run)
        before = await counts(world)
        with pytest.MonkeyPatch.context() as patch:
            Cut(world, patch, at, last)
            await cut_short(agent)
        async with elsewhere(world) as other:
            await eventually_rendered(other, run)
            assert difference(before, await counts(world)) == effect, at
            assert await render_all(other) == 0
            after: Any = await other.progress(run)
            assert check(after, report) == []
            assert len(await available(other, run)) == 3


async def cut_short(agent: AgentClient) -> None:
    try:
        await render_all(agent)
    except Unavailable:
        return


async def eventually_rendered(agent: AgentClient, run: Body) -> None:
    """Render documents until all three documents of the run are available."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(await available(agent, run)) < 3:
            await render_all(agent)


#: Script that renders documents and stops at a given point. It prints where it stopped, and waits
#: to be killed.
WORKER = """
import asyncio, sys
from uuid import UUID
from waybook.background import render_all_orgs
from waybook.store.driver.database import ConnectionPool, Database, Transaction
from waybook.app.operations import rendering as render_documents
from waybook.app.request.services import Services

dsn, role, moment = sys.argv[1:]
commit, render = Transaction.commit, render_documents.render


def say(word):
    print(word, flush=True)
    sys.stdin.read()


def rendering(template, context):
    if moment == "rendering":
        say("rendering")
    return render(template, context)


async def stopping(tx, *statements):
    if not any("insert into rendered_document" in str(statement) for statement in statements):
        return await commit(tx, *statements)
    if moment == "written":
        await tx.send(*statements)
        say("written")
    answer = await commit(tx, *statements)
    if moment == "committed":
        say("committed")
    return answer


async def main():
    Transaction.commit, render_documents.render = stopping, rendering
    await render_all_orgs(Services(database=Database(ConnectionPool(dsn), role=role or None)))


asyncio.run(main())
"""


@contextmanager
def open_renderer(world: OrgEnv, moment: str) -> Iterator[PreloadedProcess]:
    """Start a process that renders documents and stops at `moment`; kill it at the end."""
    place = world.place
    with crashing_process(WORKER, place.app_dsn, place.server.role or "", moment) as process:
        yield process


@pytest.fixture
async def separate(eighteen: Server) -> AsyncIterator[OrgEnv]:
    """Yield an environment with its own database, because the renderer works on every org."""
    with new_database(eighteen) as place:
        async with make_env(place) as made:
            yield made


@pytest.mark.parametrize("moment", ["rendering", "written", "committed"])
async def test_documents_of_killed_renderer_are_rendered_by_another_process(
    separate: OrgEnv, moment: str
) -> None:
    agent = separate.agent
    run = await make_unrendered_run(agent)
    with open_renderer(separate, moment) as process:
        assert await read_marker(process) == moment
        assert len(await available(agent, run)) == (3 if moment == "committed" else 0)
    await eventually_rendered(agent, run)
    made = [row[:3] for row in await pages(separate, agent)]
    assert sorted(made) == [("text", "a", 1), ("text", "b", 1), ("whole", "a", 1)]
    report: Any = await agent.progress(run)
    assert check(report) == []
