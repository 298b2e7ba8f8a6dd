"""Repeated calls take effect only once."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from org_env import AgentClient, Body, OrgEnv
from patience import PATIENCE_SECONDS
from tool_calls import MUTATING, valid_call
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction

TABLES = (
    *("plan", "plan_brief", "plan_step", "step_brief", "step_result", "branching_condition"),
    *("review", "plan_session", "artifact", "skill_execution", "dag_definition", "run"),
    *("run_brief", "stage_run", "stage_step", "job", "job_part", "document", "rendered_document"),
    *("late_result", "audit_entry", "idempotency_answer"),
)


#: Tools that write no audit entry. `add_dag` stores versions of definitions, which never change,
#: and `start_stage` changes nothing, because the stage has already started with the run.
UNAUDITED = {"settle_work", "report_worker", "add_dag", "start_stage"}


async def counts(world: OrgEnv, org_id: UUID) -> list[int]:
    queries = [f"select count(*) from {table}" for table in TABLES]  # noqa: S608 - names from above
    return [rows[0][0] for rows in await world.database.read_org(org_id, *queries)]


def difference(before: list[int], after: list[int]) -> dict[str, int]:
    return {t: b - a for t, a, b in zip(TABLES, before, after, strict=True) if a != b}


async def effect(world: OrgEnv, agent: AgentClient, *calls: Callable[[], object]) -> dict[str, int]:
    """Make these calls at the same time; return how many rows they add to each table."""
    before = await counts(world, agent.org_id)
    await asyncio.gather(*[call() for call in calls])  # type: ignore[call-overload]  # coroutines
    return difference(before, await counts(world, agent.org_id))


@pytest.mark.parametrize("tool", MUTATING)
async def test_concurrent_calls_with_same_idempotency_key_have_one_effect(
    world: OrgEnv, agent: AgentClient, tool: str
) -> None:
    alone = await valid_call(agent, tool)
    once = await effect(world, agent, lambda: agent.call(tool, **alone, idempotencyKey="alone"))
    assert once["idempotency_answer"] == 1
    assert tool in UNAUDITED or once["audit_entry"] >= 1

    for round_ in range(4):
        args = {**await valid_call(agent, tool), "idempotencyKey": f"twins {round_}"}
        answers: list[Body] = []

        async def call(args: Body = args, answers: list[Body] = answers) -> None:
            answers.append(await agent.call(tool, **args))

        assert await effect(world, agent, call, call, call) == once
        first, *others = sorted(answers, key=lambda body: "replayed" in body)
        assert others == [{**first, "replayed": True}] * 2
        assert await agent.call(tool, **args) == {**first, "replayed": True}


@pytest.mark.parametrize("tool", MUTATING)
async def test_only_one_call_with_the_same_idempotency_key_commits(
    world: OrgEnv, agent: AgentClient, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold the first commit back until the second call is about to commit too.

    If the tool locks a row, the second call waits for the lock and does not reach its commit, so
    the first commit is not held back.
    """
    args = {**await valid_call(agent, tool), "idempotencyKey": "twins"}
    unlocked = tool in {"create_research_plan", "start_skill", "start_run"}
    gate, commit = asyncio.Barrier(2 if unlocked else 1), Transaction.commit
    waited: list[None] = []

    async def gated(tx: Transaction, *statements: str) -> Results:
        if len(waited) < gate.parties:
            waited.append(None)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await gate.wait()
        return await commit(tx, *statements)

    before = await counts(world, agent.org_id)
    monkeypatch.setattr(Transaction, "commit", gated)
    answers = await asyncio.gather(agent.call(tool, **args), agent.call(tool, **args))
    monkeypatch.undo()
    assert difference(before, await counts(world, agent.org_id))["idempotency_answer"] == 1
    first, second = sorted(answers, key=lambda body: "replayed" in body)
    assert second == {**first, "replayed": True}


@pytest.mark.parametrize("tool", MUTATING)
async def test_idempotency_key_reused_with_other_arguments_is_refused(
    world: OrgEnv, agent: AgentClient, tool: str
) -> None:
    args = await valid_call(agent, tool)
    await agent.call(tool, **args, idempotencyKey="mine")
    before = await counts(world, agent.org_id)
    other = {**args, "sessionId": "another"}
    error = await agent.refused(tool, **other, idempotencyKey="mine")
    assert error["code"] == "IDEMPOTENCY_CONFLICT"
    assert error["next"]["tool"] == tool
    assert "a new idempotencyKey for a new call" in error["next"]["why"]
    assert error["details"] == {"idempotencyKey": "mine", "tool": tool}
    assert await counts(world, agent.org_id) == before


async def test_idempotency_key_can_be_reused_with_another_tool(agent: AgentClient) -> None:
    for tool in MUTATING:
        args = await valid_call(agent, tool)
        assert "replayed" not in await agent.call(tool, **args, idempotencyKey="the same")


async def test_repeated_call_with_reordered_arguments_is_replayed(agent: AgentClient) -> None:
    args = await valid_call(agent, "create_research_plan")
    first = await agent.call("create_research_plan", **args, idempotencyKey="k")
    turned = dict(reversed(args.items()))
    assert await agent.call("create_research_plan", idempotencyKey="k", **turned) == {
        **first,
        "replayed": True,
    }


async def test_idempotency_keys_and_session_names_may_be_very_long(agent: AgentClient) -> None:
    made = []
    for key in ("k" * 200, "k" * 2_000, "k" * 2_001):
        plans = [await agent.plan(2, idempotencyKey=key, sessionId=key) for _ in range(2)]
        made.append({plan["planId"] for plan in plans})
        steps = [await agent.take(plans[0], sessionId=key) for _ in range(2)]
        assert steps[0]["stepId"] == steps[1]["stepId"]
        assert (await agent.take(plans[0], sessionId=f"{key}!"))["stepId"] != steps[0]["stepId"]
    assert [len(ids) for ids in made] == [1, 1, 1]
    assert len(set.union(*made)) == 3


async def test_repeated_late_result_is_stored_once(world: OrgEnv, agent: AgentClient) -> None:
    taken = await agent.take(await agent.plan())
    late = {"stepId": taken["stepId"], "attempt": 7, "resultSummary": "late", "idempotencyKey": "k"}
    answers = [await agent.ask("submit_step_result", late) for _ in range(2)]
    answers += await asyncio.gather(*[agent.ask("submit_step_result", late) for _ in range(2)])
    first, *others = answers
    assert first.is_error
    assert first.body["error"]["code"] == "STALE_ATTEMPT"  # type: ignore[index]  # an object
    assert [answer.body for answer in others] == [{**first.body, "replayed": True}] * 3
    assert all(answer.is_error for answer in others)
    assert (await counts(world, agent.org_id))[TABLES.index("artifact")] == 1


async def test_refused_call_does_not_use_up_idempotency_key(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    step = plan["stepIds"][0]
    args = {"stepId": step, "summary": "Look.", "idempotencyKey": "k"}
    error = await agent.refused("request_user_review", **args)
    assert error["code"] == "INVALID_TRANSITION"
    await agent.take(plan)
    assert "replayed" not in await agent.call("request_user_review", **args)


async def test_idempotency_key_of_a_dry_run_can_be_used_again(agent: AgentClient) -> None:
    args = {**await valid_call(agent, "modify_plan"), "idempotencyKey": "k"}
    for _ in range(2):
        shown = await agent.call("modify_plan", **{**args, "dryRun": True})
        assert "replayed" not in shown
    assert "replayed" not in await agent.call("modify_plan", **args)
