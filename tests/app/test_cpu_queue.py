"""Tool calls that need much CPU time run in a thread, so that they do not delay other calls."""

import asyncio
import threading
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from org_env import OrgEnv, branch_condition
from patience import PATIENCE_SECONDS
from waybook.app.request.cpu_queue import CpuQueue
from waybook.app.tools.plans import submit as submit_tools
from waybook.errors import Busy
from waybook.plan.submit import submit

OURS, THEIRS = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("has_condition", [True, False])
async def test_conditions_on_a_result_are_evaluated_outside_the_event_loop(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch, *, has_condition: bool
) -> None:
    threads = []
    rule = submit

    def noting(*arguments: Any) -> Any:  # noqa: ANN401 - passed on as they are
        threads.append(threading.current_thread())
        return rule(*arguments)

    monkeypatch.setattr(submit_tools, "submit", noting)
    condition = branch_condition(1, "result == 'found'", "continue")
    conditions = [condition] if has_condition else []
    plan = await world.agent.plan(2, branchingConditions=conditions)
    await world.agent.submit(await world.agent.take(plan))
    assert [thread is threading.main_thread() for thread in threads] == [not has_condition]


async def test_orgs_take_turns_in_the_queue_for_cpu_work() -> None:
    queue, done, go_on = CpuQueue(max_waiting=3), list[UUID](), threading.Event()

    def job(org_id: UUID) -> None:
        go_on.wait(PATIENCE_SECONDS)
        done.append(org_id)

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        for org_id in (OURS, OURS, OURS, THEIRS):
            group.create_task(queue.run(org_id, partial(job, org_id)))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="3 expensive calls of your org are waiting"):
            await queue.run(OURS, lambda: None)
        go_on.set()
    assert done == [OURS, THEIRS, OURS, OURS]
