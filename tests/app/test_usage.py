"""Usage totals, which always equal the sums over the stored results."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from org_env import AgentClient, Body, FakeClock, OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.app.queries.usage import OrgUsage, count_usage
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel

NUMBERS = ("inputTokens", "outputTokens", "costMicros")
ZERO = {"inputTokens": 0, "outputTokens": 0, "costUsd": 0.0, "results": 0}


async def counted(world: OrgEnv, agent: AgentClient, **options: Any) -> OrgUsage:  # noqa: ANN401 - as asked
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
        ({"outputTokens": 10**9 + 1}, "usage.outputTokens: must be at most"),
        ({"outputTokens": 1.5}, "usage.outputTokens: must be a whole number"),
        ({"costUsd": -0.01}, "usage.costUsd: must be at least 0"),
        ({"costUsd": 100_001}, "usage.costUsd: must be at most"),
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


MICROS = st.integers(0, 10**11)
USAGES = st.fixed_dictionaries(
    {},
    optional={
        "inputTokens": st.integers(0, 10**9),
        "outputTokens": st.integers(0, 10**9),
        "costUsd": MICROS.map(lambda micros: micros / 10**6),
        "model": st.sampled_from(["m", "n", "ü" * 10]),
    },
)
ACTS = st.tuples(
    st.sampled_from(
        ["submit", "late step", "closed step", "hand in", "part", "late job", "regenerate"]
    ),
    USAGES,
    st.booleans(),
)


@dataclass
class Worker:
    """Agent that works on a plan and a run, and counts the usage that it reports."""

    agent: AgentClient
    plan: Body
    run: Body
    reported: dict[str, Counter[str]] = field(
        default_factory=lambda: {"plan": Counter(), "run": Counter()}
    )
    documents: list[str] = field(default_factory=list)
    keys: int = 0

    async def act(self, act: str, usage: Body, *, twice: bool) -> None:
        """Perform one action; with `twice`, repeat its call and check that this changes nothing."""
        if act in {"submit", "late step", "closed step"}:
            await self.act_on_plan(act, usage, twice=twice)
        else:
            await self.act_on_run(act, usage, twice=twice)

    async def act_on_plan(self, act: str, usage: Body, *, twice: bool) -> None:
        taken = await self.agent.call("get_next_step", planId=self.plan["planId"])
        if taken["status"] != "step_ready":
            return
        args = {"stepId": taken["stepId"], "attempt": taken["attempt"], "resultSummary": "found"}
        if act == "late step":
            args["attempt"] = 9
        if act == "closed step":
            await self.send("submit_step_result", args, {}, twice=False)
        accepted = await self.send("submit_step_result", args, usage, twice=twice)
        self.count("plan", accepted, usage)

    async def act_on_run(self, act: str, usage: Body, *, twice: bool) -> None:
        if act == "regenerate" and self.documents:
            await self.agent.call("regenerate_document", documentId=self.documents[-1])
        job = await self.agent.call("get_next_job", runId=self.run["runId"])
        if job["status"] != "job_ready":
            return
        attempt = job["attempt"] + (act == "late job")
        args = {"jobId": job["jobId"], "attempt": attempt, "documents": [{"content": "# Found"}]}
        args["continues"] = act == "part"
        accepted = await self.send("submit_job_result", args, usage, twice=twice)
        self.count("run", accepted, usage)

    async def send(self, tool: str, args: Body, usage: Body, *, twice: bool) -> bool:
        """Send a result; return whether it was stored as the result or as a late result."""
        self.keys += 1
        call = {**args, "usage": usage, "idempotencyKey": f"key {self.keys}"}
        answer = await self.agent.ask(tool, call)
        if twice:
            again = await self.agent.ask(tool, call)
            assert again.is_error is answer.is_error
        body: Any = answer.body
        self.documents += body.get("documentIds", [])
        return not answer.is_error or body["error"]["code"] == "STALE_ATTEMPT"

    def count(self, where: str, accepted: bool, usage: Body) -> None:  # noqa: FBT001 - what was answered
        if accepted and usage:
            micros = round(usage.get("costUsd", 0) * 10**6)
            amounts = {**usage, "costMicros": micros, "results": 1}
            self.reported[where].update(
                {name: amounts.get(name, 0) for name in (*NUMBERS, "results")}
            )


def as_reported(sums: Counter[str]) -> Body:
    fields = {name: sums[name] for name in ("inputTokens", "outputTokens", "results")}
    return {**fields, "costUsd": sums["costMicros"] / 10**6}


async def make_busy_day(place: ServerDatabase, acts: list[tuple[str, Body, bool]]) -> None:
    async with make_env(place, pool_size=1) as world:
        agent = world.agent
        worker = Worker(agent, await agent.plan(5), await agent.run("dialectic", "abc"))
        for act, usage, twice in acts:
            await worker.act(act, usage, twice=twice)
        assert (await agent.status(worker.plan))["usage"] == as_reported(worker.reported["plan"])
        assert (await agent.progress(worker.run))["usage"] == as_reported(worker.reported["run"])
        detail = await agent.call("get_plan_status", planId=worker.plan["planId"], detail=True)
        by_step: Counter[str] = Counter()
        for step in detail["usage"]["steps"]:
            micros = round(step["costUsd"] * 10**6)
            by_step.update(
                {**{n: step[n] for n in (*NUMBERS[:2], "results")}, "costMicros": micros}
            )
        assert as_reported(by_step) == as_reported(worker.reported["plan"])
        org = await counted(world, agent)
        everything = worker.reported["plan"] + worker.reported["run"]
        assert org.usage.as_reply() == as_reported(everything)
        for parts in (org.models, org.work):
            assert sum(part.usage.results for part in parts) == everything["results"]
            assert sum(part.usage.cost_micros for part in parts) == everything["costMicros"]
            assert sum(part.usage.tokens for part in parts) == org.usage.tokens


@settings(max_examples=25)
@given(st.lists(ACTS, max_size=16))
def test_reported_usage_equals_sum_over_stored_results(
    shared_place: ServerDatabase, acts: list[tuple[str, Body, bool]]
) -> None:
    asyncio.run(make_busy_day(shared_place, acts))
