"""Workers that are killed or stopped: nothing is lost, done twice or left behind."""

import asyncio
import os
import signal

import pytest

from org_env import AgentClient, make_step
from patience import PATIENCE_SECONDS
from work_env import Place

WRITER = """
write(f"{order}.txt", "written")
with open(pathlib.Path(sys.argv[0]).parent / "calls", "a") as calls:
    calls.write(f"{order}\\n")
hold = pathlib.Path(sys.argv[0]).parent / "hold"
started = hold.parent / "started"
if started.exists():
    started.open("w").close()
while hold.exists():
    time.sleep(0.01)
answer(f"did {order}")
"""
#: Kills the worker, which is the parent of the shell that runs the check.
KILLER = """
import os, pathlib, signal
mark = pathlib.Path(os.environ["HOME"], "killed")
if not mark.exists():
    mark.touch()
    os.kill(int(pathlib.Path(os.environ["HOME"], "pid").read_text()), signal.SIGKILL)
"""


async def test_worker_killed_during_merge_submits_the_result_once(
    place: Place, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place.root))
    plan = await agent.plan([make_step("One."), make_step("Two.", dependsOn=[1])])
    writer, check = place.agent(WRITER), place.check(KILLER)
    async with asyncio.timeout(PATIENCE_SECONDS):
        process = place.start(plan["planId"], writer, check)
        assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
        assert len(place.leftovers()) > 0
        assert await place.work(plan["planId"], (writer, 1), check=check) == 0, place.messages
    # The result of the first step was kept, so its agent did not work again.
    assert (place.root / "calls").read_text() == "1\n2\n"
    status = await agent.status(plan)
    results = [step["resultSummary"] for step in status["completedSteps"]]
    assert results == ["did 1", "did 2"]
    assert {"1.txt", "2.txt"} < place.files(f"waybook/{plan['planId']}/merged").keys()
    assert place.leftovers() == []


async def test_restart_gives_back_the_step_of_a_killed_worker(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("One.")])
    writer, hold = place.agent(WRITER), place.root / "hold"
    hold.touch()
    os.mkfifo(place.root / "started")
    async with asyncio.timeout(PATIENCE_SECONDS):
        process = place.start(plan["planId"], writer)
        await place.wait_for_agent("started")
        process.kill()
        await asyncio.to_thread(process.wait)
        hold.unlink()
        (place.root / "started").unlink()
        assert await place.work(plan["planId"], (writer, 1)) == 0, place.messages
    (done,) = (await agent.status(plan))["completedSteps"]
    assert done["resultSummary"] == "did 1"
    assert place.leftovers() == []


@pytest.mark.parametrize("finishes", [True, False])
async def test_stopped_worker_finishes_or_gives_the_step_back(
    place: Place, agent: AgentClient, *, finishes: bool
) -> None:
    plan = await agent.plan([make_step("One."), make_step("Two.")])
    writer, hold = place.agent(WRITER), place.root / "hold"
    hold.touch()
    os.mkfifo(place.root / "started")
    async with asyncio.timeout(PATIENCE_SECONDS):
        working = asyncio.create_task(place.work(plan["planId"], (writer, 1)))
        await place.wait_for_agent("started")
        os.kill(os.getpid(), signal.SIGTERM)
        if finishes:
            hold.unlink()
        else:
            await place.hear("stopping")
            os.kill(os.getpid(), signal.SIGTERM)
        assert await working == 143
    status = await agent.status(plan)
    states = (len(status["completedSteps"]), len(status["pendingSteps"]))
    assert states == ((1, 1) if finishes else (0, 2))
    assert status["activeSteps"] == []
    assert place.leftovers() == []
