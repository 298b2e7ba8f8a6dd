"""Usage totals always equal the sums over the stored results."""

import json
from typing import Any

import pytest

from org_env import AgentClient, Body, FakeClock, OrgEnv
from waybook.app.queries.usage import OrgUsage, count_usage
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel

ZERO = {"inputTokens": 0, "outputTokens": 0, "costUsd": 0.0, "results": 0}


async def counted(world: OrgEnv, agent: AgentClient, **options: Any) -> OrgUsage:  # noqa: ANN401 - passed on
    caller = agent.acting_as("pat", Channel.CLI).caller
    return await count_usage(
        RequestContext(services=world.dispatcher.services, caller=caller), **options
    )


async def test_usage_is_reported_per_plan_and_per_step(agent: AgentClient) -> None:
    plan = await agent.plan(3)
    took = {"inputTokens": 1200, "outputTokens": 300, "costUsd": 0.25, "model": "m"}
    await agent.submit(await agent.take(plan), usage=took)
    await agent.submit(await agent.take(plan))
    await agent.submit(await agent.take(plan), usage=json.dumps({"cost_usd": 0.1}))
    expected = {"inputTokens": 1200, "outputTokens": 300, "costUsd": 0.35, "results": 2}
    assert (await agent.status(plan))["usage"] == expected
    assert (await agent.call("get_next_step", planId=plan["planId"]))["usage"] == expected
    report = await agent.call("get_run_progress", planId=plan["planId"])
    assert report["usage"] == expected
    detail = await agent.call("get_plan_status", planId=plan["planId"], detail=True)
    first, last = plan["stepIds"][0], plan["stepIds"][2]
    assert detail["usage"] == {
        **expected,
        "steps": [
            {"stepId": first, "stepOrder": 1, **ZERO, **_without_model(took), "results": 1},
            {"stepId": last, "stepOrder": 3, **ZERO, "costUsd": 0.1, "results": 1},
        ],
    }


def _without_model(took: Body) -> Body:
    return {name: value for name, value in took.items() if name != "model"}


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({"inputTokens": -1}, "usage.inputTokens: must be at least 0"),
        ({"outputTokens": 1.5}, "usage.outputTokens: must be a whole number"),
        ({"costUsd": -0.01}, "usage.costUsd: must be at least 0"),
        ({"tokens": 3}, "usage.tokens: unknown argument"),
        ({"model": 3}, "usage.model: must be a text"),
        ("cheap", "usage: must be an object"),
        ([1], "usage: must be an object"),
    ],
    ids=str,
)
async def test_result_with_malformed_usage_is_refused_without_writes(
    agent: AgentClient, usage: object, said: str
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    held = {"stepId": taken["stepId"], "resultSummary": "found", "usage": usage}
    error = await agent.refused("submit_step_result", **held)
    assert error["code"] == "INVALID_INPUT"
    assert error["message"].startswith(said), error
    status = await agent.status(plan)
    assert (status["counts"]["done"], status["usage"]) == (0, ZERO)


async def test_cost_is_rounded_to_millionths_of_a_dollar_per_result(agent: AgentClient) -> None:
    plan = await agent.plan(3)
    for cost in (0.1 + 0.2, 0.0000005, 0.00000049):
        await agent.submit(await agent.take(plan), usage={"costUsd": cost})
    assert (await agent.status(plan))["usage"]["costUsd"] == 0.300001


async def test_org_usage_lists_usage_by_model_plan_and_run(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan, run = await agent.plan(1, name="Lakes"), await agent.run()
    await agent.submit(await agent.take(plan), usage={"inputTokens": 1, "costUsd": 2})
    job = await agent.job(run)
    await agent.submit_documents(job, usage={"outputTokens": 3, "costUsd": 1})
    org_usage = await counted(world, agent)
    assert (org_usage.usage.tokens, org_usage.usage.cost_micros, org_usage.usage.results) == (
        4,
        3_000_000,
        2,
    )
    assert [entry.model for entry in org_usage.models] == [None, job["modelId"]]
    assert [(entry.kind, entry.id, entry.name) for entry in org_usage.work] == [
        ("plan", plan["planId"], "Lakes"),
        ("run", run["runId"], "Rivers"),
    ]
    short = await counted(world, agent, most=1)
    assert (len(short.models), short.models_total, len(short.work), short.work_total) == (
        1,
        2,
        1,
        2,
    )
    theirs = await counted(world, world.other_org)
    assert (theirs.usage.results, theirs.models, theirs.work) == (0, [], [])


async def test_org_usage_includes_last_thirty_days_or_requested_period(
    world: OrgEnv, agent: AgentClient, clock: FakeClock
) -> None:
    began = clock.now
    plan = await agent.plan(2)
    await agent.submit(await agent.take(plan), usage={"inputTokens": 1})
    clock.advance(days=30, seconds=1)
    await agent.submit(await agent.take(plan), usage={"inputTokens": 2})
    assert (await counted(world, agent)).usage.tokens == 2
    assert (await counted(world, agent, since=began)).usage.tokens == 3
    assert (await counted(world, agent, since=clock.now)).usage.tokens == 2


USAGE = {"inputTokens": 10, "outputTokens": 1, "costUsd": 0.25}


def times(count: int) -> Body:
    """Return the total of this many results that each report `USAGE`."""
    return {**{name: count * amount for name, amount in USAGE.items()}, "results": count}


async def report_twice(agent: AgentClient, tool: str, key: str, **args: object) -> Body:
    """Make a call with `USAGE` twice with the same idempotency key; return the first answer."""
    call = {**args, "usage": USAGE, "idempotencyKey": key}
    answers = [await agent.ask(tool, call) for _ in range(2)]
    assert answers[0].is_error is answers[1].is_error
    return dict(answers[0].body)


async def test_usage_counts_late_results_parts_and_regenerated_documents_once(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan, run = await agent.plan(2), await agent.run()
    step = await agent.take(plan)
    found = {"stepId": step["stepId"], "resultSummary": "found"}
    # The step is closed after the second result, and its holder's third result is not stored.
    for key, attempt in (("late", 9), ("accepted", 1), ("closed", 1)):
        await report_twice(agent, "submit_step_result", key, attempt=attempt, **found)
    job = await agent.job(run)
    done: Body = {}
    for key, late, continues in (("late", 1, False), ("part", 0, True), ("whole", 0, False)):
        held = {"jobId": job["jobId"], "attempt": job["attempt"] + late, "continues": continues}
        documents = [{"content": "# Found"}]
        done = await report_twice(agent, "submit_job_result", key, documents=documents, **held)
        if continues:
            job = await agent.job(run)
    (document_id,) = done["documentIds"]
    await agent.call("regenerate_document", documentId=document_id)
    again = await agent.job(run)
    await agent.submit_documents(again, usage=USAGE)
    detail = await agent.call("get_plan_status", planId=plan["planId"], detail=True)
    by_step = [{"stepId": step["stepId"], "stepOrder": 1, **times(2)}]
    assert detail["usage"] == {**times(2), "steps": by_step}
    assert (await agent.progress(run))["usage"] == times(4)
    org = await counted(world, agent)
    assert org.usage.as_reply() == times(6)
    for parts in (org.models, org.work):
        sums = [(part.usage.results, part.usage.cost_micros, part.usage.tokens) for part in parts]
        assert [sum(column) for column in zip(*sums, strict=True)] == [6, 1_500_000, 66]
