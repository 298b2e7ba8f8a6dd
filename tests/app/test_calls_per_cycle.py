"""Number of function calls that step cycles and job cycles make in Python."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

from org_env import AgentClient, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.store.plans.cache import PlanCache

#: Maximum number of function calls for one claim and one submission. The measured number is 7 to
#: 15 lower. It is independent of the speed of the machine; only an answer of the database that
#: arrives in several pieces adds about ten calls.
MAX_CALLS = 1_060
#: The same for one submission that also claims the next step.
MAX_TAKE_NEXT_CALLS = 705
#: The same if neither call finds the plan in memory, and for a job of a run in memory.
MAX_UNCACHED_CALLS = 1_330
MAX_JOB_CALLS = 1_455
#: The same if another process has changed the plan before each of the two calls.
MAX_ALTERNATING_CALLS = 1_260
#: Modules whose number of calls depends on how the answers of the database arrive.
WAITING_MODULES = ("driver/connection.py", "driver/database.py", "driver/pool.py")


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the calls of and from functions of the package; the list contains the number."""
    calls, before = [0], sys.getprofile()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        # Methods that Python generates for named tuples and dataclasses have no file.
        is_own = "/src/waybook/" in name or name == "<string>"
        if event in {"call", "c_call"} and is_own and not name.endswith(WAITING_MODULES):
            calls[0] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


async def test_claim_and_submit_on_cached_plan_make_few_function_calls(
    agent: AgentClient,
) -> None:
    plan, numbers = await agent.plan(10), []
    for number in count():
        key = {"sessionId": "main", "idempotencyKey": f"key-{number}"}
        with counted_calls() as calls:
            taken = await agent.take(plan, **key)
            done = await agent.submit(taken, {"found": "Three agree.", "sources": [1, 2]}, **key)
        numbers.append(calls[0])
        if done["planStatus"] == "completed":
            break
    # The first cycles fill caches, and the last one closes the plan.
    assert sorted(numbers[2:-1])[3] <= MAX_CALLS


async def test_submit_with_take_next_makes_few_function_calls(
    agent: AgentClient,
) -> None:
    plan, numbers = await agent.plan(10), []
    taken = await agent.take(plan, sessionId="main")
    for number in range(9):
        key = {"sessionId": "main", "idempotencyKey": f"key-{number}", "takeNext": True}
        with counted_calls() as calls:
            taken = await agent.submit(taken, {"found": "Three agree.", "sources": [1, 2]}, **key)
        numbers.append(calls[0])
    assert sorted(numbers[2:])[3] <= MAX_TAKE_NEXT_CALLS


async def test_claim_and_submit_on_uncached_plan_make_few_function_calls(
    agent: AgentClient,
) -> None:
    plan, numbers, cache = await agent.plan(10), [], agent.dispatcher.services.shared(PlanCache)
    for number in range(9):
        key = {"sessionId": "main", "idempotencyKey": f"key-{number}"}
        with counted_calls() as calls:
            cache.clear()
            taken = await agent.take(plan, **key)
            cache.clear()
            await agent.submit(taken, {"found": "Three agree.", "sources": [1, 2]}, **key)
        numbers.append(calls[0])
    assert sorted(numbers[2:])[3] <= MAX_UNCACHED_CALLS


async def test_claim_and_submit_in_alternating_processes_make_few_function_calls(
    world: OrgEnv,
) -> None:
    agent, elsewhere = world.agent, world.agent.elsewhere()
    plan, numbers = await agent.plan(12), []
    for number in range(9):
        key = {"sessionId": "main", "idempotencyKey": f"key-{number}"}
        with counted_calls() as calls:
            taken = await agent.take(plan, **key)
            await elsewhere.submit(
                taken, {"found": "Three agree.", "sources": [1, 2]}, confidence=0.8, **key
            )
        numbers.append(calls[0])
    # With the first cycles, both processes learn that the other one changes the plan.
    assert sorted(numbers[2:])[3] <= MAX_ALTERNATING_CALLS


async def test_claim_and_submit_on_cached_run_make_few_function_calls(
    agent: AgentClient,
) -> None:
    stage = make_stage("one", make_recipe_step("one"), make_recipe_step("two"))
    await agent.call("add_dag", definition=make_definition("wide", stage))
    run, numbers = await agent.run("wide", [f"m{number}" for number in range(12)]), []
    for number in range(9):
        key = {"sessionId": "main", "idempotencyKey": f"key-{number}"}
        with counted_calls() as calls:
            job = await agent.job(run, **key)
            await agent.submit_documents(job, **key)
        numbers.append(calls[0])
    assert sorted(numbers[2:])[3] <= MAX_JOB_CALLS
