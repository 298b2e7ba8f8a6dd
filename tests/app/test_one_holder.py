"""Users with the same session name, who never get the same step or job."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from sample_definitions import make_definition, make_recipe_step, make_stage

#: Pairs of user and session. Both users have sessions with the same names, and one of them also
#: makes calls without a session.
WHO = (("ann", "main"), ("bob", "main"), ("ann", "other"), ("bob", "other"), ("bob", None))
ID_OF = {"get_next_step": "stepId", "get_next_job": "jobId"}


def named(session: str | None) -> Body:
    return {} if session is None else {"sessionId": session}


async def make_wide_run(agent: AgentClient) -> Body:
    """Start a run of six jobs without dependencies."""
    stage = make_stage("only", make_recipe_step("one"), make_recipe_step("two"))
    await agent.call("add_dag", definition=make_definition("wide", stage))
    return await agent.run("wide", "abc")


async def test_users_with_same_session_name_get_different_jobs(
    agent: AgentClient,
) -> None:
    await make_wide_run(agent)
    first = await agent.call("get_next_job", sessionId="main")
    second = await agent.acting_as("bob").call("get_next_job", sessionId="main")
    assert second["jobId"] != first["jobId"]


@pytest.mark.parametrize("tool", ID_OF)
async def test_users_with_same_idempotency_key_get_different_steps_or_jobs(
    agent: AgentClient, tool: str
) -> None:
    plan, run = await agent.plan(), await make_wide_run(agent)
    where = {"planId": plan["planId"]} if tool == "get_next_step" else {"runId": run["runId"]}
    args = {**where, "sessionId": "main", "idempotencyKey": "1"}
    taken = await agent.call(tool, **args)
    other = await agent.acting_as("bob").call(tool, **args)
    assert other[ID_OF[tool]] != taken[ID_OF[tool]]
    for user, first in ((agent, taken), (agent.acting_as("bob"), other)):
        again = await user.call(tool, **args)
        assert again["replayed"]
        assert again[ID_OF[tool]] == first[ID_OF[tool]]


async def test_new_plan_does_not_refer_to_skill_of_another_user(
    world: OrgEnv, agent: AgentClient
) -> None:
    started = await agent.call("start_skill", name="survey", sessionId="main")
    mine = await agent.plan(sessionId="main")
    other = await agent.acting_as("bob").plan(sessionId="main")
    stored = [await world.stored(agent.org_id, plan["planId"]) for plan in (mine, other)]
    linked = [next(iter(rows["plan"].values()))["skill_execution_id"] for rows in stored]
    assert linked == [started["skillExecutionId"], None]


class Office:
    """Simulation of the users of one plan and one run, which checks every reply."""

    def __init__(self, world: OrgEnv, plan: Body, run: Body, chance: Random) -> None:
        self.world, self.chance = world, chance
        self.where = {"get_next_step": plan, "get_next_job": run}
        self.holders: dict[tuple[str, int], tuple[str, str | None]] = {}
        #: Reply to the claim of each step or job that is still held, by the id of the step or job.
        self.open: dict[str, Body] = {}

    async def ask(self, tool: str) -> None:
        who = self.chance.choice(WHO)
        another = self.chance.random() < 0.2
        key = "planId" if tool == "get_next_step" else "runId"
        at = self.world.agent.acting_as(who[0])
        reply = await at.call(
            tool, **{key: self.where[tool][key]}, another=another, **named(who[1])
        )
        if not reply["status"].endswith("_ready") or reply["status"] == "nothing_ready":
            return
        piece, attempt = reply[ID_OF[tool]], reply["attempt"]
        mine = {
            open_id
            for open_id, open_reply in self.open.items()
            if ID_OF[tool] in open_reply and self.holders[open_id, open_reply["attempt"]] == who
        }
        assert self.holders.setdefault((piece, attempt), who) == who
        if mine and who[1] is not None and not another:
            assert piece in mine
        elif piece in self.open and self.open[piece]["attempt"] == attempt:
            assert who[1] is not None
        self.open[piece] = reply

    async def end(self) -> None:
        if not self.open:
            return
        piece = self.chance.choice([*self.open])
        reply = self.open.pop(piece)
        agent = self.world.agent.acting_as(self.holders[piece, reply["attempt"]][0])
        if "jobId" not in reply:
            await agent.submit(reply)
        elif self.chance.random() < 0.5:
            await agent.submit_documents(reply)
        else:
            held = {"jobId": piece, "attempt": reply["attempt"]}
            await agent.call("fail_job", **held, error="No.", retryable=True)

    async def work(self, moves: int) -> None:
        for _ in range(moves):
            move = self.chance.random()
            if move < 0.4:
                await self.ask("get_next_job")
            elif move < 0.8:
                await self.ask("get_next_step")
            elif move < 0.97:
                await self.end()
            else:
                self.world.clock.advance(minutes=16)


@settings(max_examples=12)
@given(st.randoms(use_true_random=False), st.integers(5, 40))
def test_users_with_same_session_name_never_hold_the_same_attempt(
    shared_place: ServerDatabase, chance: Random, moves: int
) -> None:
    async def story() -> None:
        async with make_env(shared_place, pool_size=1) as world:
            plan, run = await world.agent.plan(8), await make_wide_run(world.agent)
            await Office(world, plan, run, chance).work(moves)

    asyncio.run(story())
