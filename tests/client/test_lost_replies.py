"""Calls that take effect once, although replies are lost or the server is killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_postgres.data_directories import make_data_directory
from fault_link import http_fault_link
from org_env import AgentClient, Body, OrgEnv
from patience import PATIENCE_SECONDS
from preloaded_process import PreloadedProcess, open_preloaded
from run_place import run_directory
from waybook.client import NO_RETRY, Client, Retry, Unreachable
from waybook.client.replies import NewStep
from waybook.errors import Unavailable
from waybook.store.driver.queries import Query

PLANS = Query("plans", "select count(*) from plan")
PATIENT = Retry(deadline_seconds=PATIENCE_SECONDS)
STEPS: list[NewStep] = [
    {"stepType": "search", "instructions": "One."},
    {"stepType": "search", "instructions": "Two."},
]
QUICK = Retry(deadline_seconds=PATIENCE_SECONDS, first_delay_seconds=0.01, max_delay_seconds=0.05)


async def count(world: OrgEnv, plan_id: str, event: str) -> int:
    entries = await world.entries(world.agent.org_id, plan_id)
    return sum(entry.event == event for entry in entries)


@asynccontextmanager
async def losing_client(address: str) -> AsyncIterator[Client]:
    """Yield a client that never gets the first answer to a call."""
    with http_fault_link(address) as (link, through):

        class LosingClient(Client):
            async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
                link.lose_next_answer()
                reply = await super().call(tool, **arguments)
                assert link.was_reset.is_set()
                return reply

        async with LosingClient(through, retry=QUICK) as client:
            yield client


async def test_every_change_is_stored_once_if_replies_are_lost(address: str, world: OrgEnv) -> None:
    async with losing_client(address) as client:
        plan = await client.create_plan("Rivers", "Which river is longest?", STEPS)
        async for step in client.steps(plan["planId"]):
            async with step:
                await step.context()
                await step.submit(step.order)
    assert await count_plans(world) == 1
    for event in ("step_started", "step_completed"):
        assert await count(world, plan["planId"], event) == len(STEPS)


async def count_plans(world: OrgEnv) -> int:
    ((row,),) = await world.database.read_org(world.agent.org_id, PLANS())
    return int(row[0])


async def test_error_raised_inside_a_step_is_recorded_once_despite_lost_reply(
    address: str, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    async with losing_client(address) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.step(plan["planId"]):
                raise ZeroDivisionError
    assert (await agent.take(plan))["attempt"] == 2
    assert await count(world, plan["planId"], "step_failed") == 1


async def test_each_document_is_stored_once_if_replies_are_lost(
    address: str, agent: AgentClient
) -> None:
    run = await agent.run(models="a")
    async with losing_client(address) as client:
        async for job in client.jobs(run["runId"], until="idle"):
            async with job:
                done = await job.submit("# Found")
                assert len(done["documentIds"]) == len(job.documents)
    (first, *_) = (await agent.progress(run, detail=True))["stages"]
    assert first["status"] == "completed"


async def test_client_without_retries_can_submit_again_after_a_lost_reply(
    address: str, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    with http_fault_link(address) as (link, through):
        async with Client(through, retry=NO_RETRY) as client, client.step(plan["planId"]) as step:
            link.lose_next_answer()
            with pytest.raises(Unreachable):
                await step.submit("found")
            assert (await step.submit("found"))["planStatus"] == "completed"
    assert await count(world, plan["planId"], "step_completed") == 1


async def test_client_raises_unavailable_at_deadline_if_server_is_unreachable() -> None:
    retry = Retry(deadline_seconds=0.5, first_delay_seconds=0.01)
    async with Client("http://127.0.0.1:1", retry=retry) as client:
        with pytest.raises(Unavailable, match="cannot reach"):
            await client.call("ping")


@contextmanager
def serve(data_dir: Path, port: int = 0) -> Iterator[tuple[PreloadedProcess, str]]:
    """Start `waybook serve`; yield its process and address; kill the process at the end."""
    command = ("serve", "--port", str(port), "--data-dir", str(data_dir))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WAYBOOK_")}
    with open_preloaded(command, environment, run_directory() / f"{data_dir.name}.log") as process:
        yield process, process.stdout.readline().split()[-1]


async def test_result_is_stored_once_if_server_dies_before_reply() -> None:
    with (
        make_data_directory(parent=run_directory()) as data_dir,
        serve(data_dir) as (process, address),
        http_fault_link(address) as (link, through),
    ):
        async with asyncio.timeout(2 * PATIENCE_SECONDS), Client(through, retry=PATIENT) as client:
            plan = await client.create_plan("Rivers", "Which?", STEPS)
            async with client.step(plan["planId"]) as step:
                link.reset_after_bytes = 0
                submitting = asyncio.create_task(step.submit("found"))
                # The server has committed the submit, but its reply has not been forwarded to the
                # client.
                assert await asyncio.to_thread(link.holds_answer.wait, PATIENCE_SECONDS)
                process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(process.wait, PATIENCE_SECONDS)
                link.may_answer.set()
                while not link.refused:  # noqa: ASYNC110 - the link reports nothing
                    await asyncio.sleep(0.001)
                port = int(address.rpartition(":")[2])
                with ExitStack() as restarted:
                    server = serve(data_dir, port)
                    await asyncio.to_thread(restarted.enter_context, server)
                    done: Body = {**await submitting}
                    status = await client.call("get_plan_status", planId=plan["planId"])
    assert (done["progress"]["done"], done["replayed"]) == (1, True)
    assert status["counts"] == {"done": 1, "total": 2}
