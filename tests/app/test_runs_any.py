"""Runs of random workflows have exactly the expected jobs, even with unreliable agents.

Definitions, models and failures are random. Every report during the run is checked, and at the end
the audit is compared with the rows.
"""

import asyncio
import json
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import dags, models
from org_env import AgentClient, Body, FakeClock, OrgEnv, make_env
from postgres_servers import ServerDatabase
from report_invariants import check
from waybook.dag.definitions.definition import write_definition
from waybook.dag.model import Dag

#: Run these tests on PostgreSQL 15 too: there, every transaction begins with `set local role`, and
#: every tool for runs must work with that.
pytestmark = pytest.mark.every_server


class Crew:
    """Agents that usually complete jobs, but may also fail them, submit only a part, or stop."""

    def __init__(self, world: OrgEnv, run: Body, chance: Random) -> None:
        self.agent: AgentClient = world.agent
        self.clock: FakeClock = world.clock
        self.run = run
        self.chance = chance
        self.before: Any = None
        self.documents: list[str] = []

    async def work(self, most: int | None = None) -> bool:
        """Claim at most this many jobs and work on them; return whether the run is complete."""
        for _ in count() if most is None else range(most):
            reply = await self.agent.call("get_next_job", runId=self.run["runId"])
            match reply["status"]:
                case "job_ready":
                    await self.do(reply)
                case "nothing_ready":
                    self.clock.advance(minutes=16)
                case "stage_failed":
                    named = {"runId": self.run["runId"], "stageSlug": reply["stageSlug"]}
                    assert (await self.agent.call("retry_failed", **named))["retried"] >= 1
                case "awaiting_feedback":
                    await self.agent.feedback(self.run, reply["stageSlug"])
                case "run_complete":
                    return True
            await self.look()
        return False

    async def do(self, job: Body) -> None:
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        mood = self.chance.random()
        is_list = any("format" in document for document in job["documents"])
        items = [f"item {n}" for n in range(self.chance.randrange(4))]
        if mood < 0.05:
            return
        if mood < 0.15:
            fatal = self.chance.random() < 0.3
            await self.agent.call("fail_job", **held, error="No.", retryable=not fatal)
        elif mood < 0.2:
            await self.agent.submit_documents(job, " " if is_list else "a part, ", continues=True)
        else:
            content = json.dumps(items) if is_list else f"by {job['modelId']}"
            done = await self.agent.submit_documents(job, content)
            self.documents += done["documentIds"]
        if self.documents and self.chance.random() < 0.05:
            named = {"documentId": self.chance.choice(self.documents)}
            await self.agent.ask("regenerate_document", named)

    async def look(self) -> None:
        """Check that the run's report is valid and consistent with the previous report."""
        report: Any = await self.agent.progress(self.run, detail=True)
        assert check(report, self.before) == []
        self.before = report


async def promised(agent: AgentClient, run: Body) -> dict[tuple[str, str], int]:
    """Return the expected number of jobs for each step, from the map."""
    dag_map = await agent.call("get_dag_map", runId=run["runId"], detail=True)
    return {
        (stage["stageSlug"], key): count
        for stage in dag_map["stages"]
        for key, count in stage["expected"]["steps"].items()
    }


async def make_run_of(place: ServerDatabase, dag: Dag, names: list[str], seed: int) -> None:
    async with make_env(place, pool_size=2) as world:
        agent = world.agent
        await agent.call("add_dag", definition=write_definition(dag))
        run = await agent.run(dag.slug, names, input={"brief": "Go.", "items": ["x", "y"]})
        crew = Crew(world, run, Random(seed))  # noqa: S311 - not for secrets
        await crew.work()
        report = await agent.progress(run, detail=True)
        done = {
            (stage["stageSlug"], step["stepKey"]): step["jobs"]["done"]
            for stage in report["stages"]
            for step in stage["steps"]
        }
        assert done == await promised(agent, run)
        assert report["dagProgress"]["completedStages"] == len(dag.stages)


@settings(max_examples=20)
@given(dags(max_stages=3, max_steps=4), models(most=3), st.integers(0, 2**32))
def test_any_run_creates_the_jobs_shown_in_the_map(
    shared_place: ServerDatabase, dag: Dag, names: list[str], seed: int
) -> None:
    asyncio.run(make_run_of(shared_place, dag, names, seed))


async def make_canceled_run_of(
    place: ServerDatabase, dag: Dag, names: list[str], seed: int, calls: int
) -> None:
    async with make_env(place, pool_size=2) as world:
        agent = world.agent
        await agent.call("add_dag", definition=write_definition(dag))
        run = await agent.run(dag.slug, names, input={"brief": "Go.", "items": ["x", "y"]})
        crew = Crew(world, run, Random(seed))  # noqa: S311 - not for secrets
        is_complete = await crew.work(calls)
        last = await agent.call("get_next_job", runId=run["runId"])
        cancel = {"runId": run["runId"], "reason": "no use"}
        if is_complete or last["status"] == "run_complete":
            assert (await agent.refused("cancel_run", **cancel))["code"] == "INVALID_TRANSITION"
            return
        await agent.call("cancel_run", **cancel)
        after = await agent.call("get_next_job", runId=run["runId"])
        assert (after["status"], after["reason"]) == ("run_canceled", "no use")
        if last["status"] == "job_ready":
            held = {
                "jobId": last["jobId"],
                "attempt": last["attempt"],
                "documents": [{"content": "late"}],
            }
            assert (await agent.refused("submit_job_result", **held))["code"] == "RUN_CANCELED"
        await crew.look()


@settings(max_examples=20)
@given(dags(max_stages=3, max_steps=4), models(most=3), st.integers(0, 2**32), st.integers(0, 20))
def test_canceled_run_hands_out_no_more_jobs(
    shared_place: ServerDatabase, dag: Dag, names: list[str], seed: int, calls: int
) -> None:
    asyncio.run(make_canceled_run_of(shared_place, dag, names, seed, calls))
