"""Worktrees and records of steps while other workers use them."""

import os
from pathlib import Path
from typing import Any

import pytest

from org_env import AgentClient, Body
from waybook.client import Client
from waybook.client.connection import HttpConnection
from waybook.work.delivery import Workshop
from waybook.work.options import Options
from waybook.work.records import Record, Stage, StateFolder, read_record
from waybook.work.worktrees import Repository
from work_env import Place


@pytest.fixture
async def shop(place: Place) -> Workshop:
    repository = await Repository.find(place.repository)
    state = place.root / "state"

    def connect(name: str) -> Client:
        return Client(HttpConnection(place.address, None, 30.0, name))

    options = Options(
        agents=(), connect=connect, folder=place.repository, state_folder=state, say=place.say
    )
    return Workshop(options, StateFolder(state), repository, "worker")


def make_record(shop: Workshop, step: Body, session: str, folder: Path) -> Record:
    assert shop.repository is not None
    path = shop.state.record_path(step["planId"], step["stepId"])
    named: dict[str, Any] = {"repository": str(shop.repository.common), "folder": str(folder)}
    branch = f"waybook/{step['planId']}/{step['stepId']}"
    return Record(path, step, session, "agent", branch=branch, **named).save()


async def test_parked_step_that_was_failed_leaves_the_workers_worktree(
    shop: Workshop, agent: AgentClient
) -> None:
    assert shop.repository is not None
    plan = await agent.plan(2)
    step = {"planId": plan["planId"], "stepId": plan["stepIds"][0], "stepOrder": 1, "attempt": 1}
    folder = shop.state.pooled_tree("worker", "0")
    tree = await shop.repository.open_tree(folder, "waybook/p/other", "main")
    make_record(shop, step, "worker", folder).save(stage=Stage.PARKED)
    await agent.modify(plan, "fail_step", stepId=step["stepId"], reason="Not needed.")
    async with shop.options.connect("agent") as client:
        await shop.settle(client, plan["planId"])
    assert [*shop.state.records()] == []
    assert (await tree.git("branch", "--show-current")).strip() == "waybook/p/other"


async def test_step_taken_over_gets_a_new_folder_that_the_former_worker_leaves(
    shop: Workshop, place: Place
) -> None:
    assert shop.repository is not None
    step = {"planId": "p", "stepId": "s", "stepOrder": 1, "attempt": 1}
    folder = shop.state.root / "trees" / "step"
    await shop.repository.open_tree(folder, "waybook/p/s", "main")
    former = make_record(shop, step, "former", folder)
    with (folder / "README.md").open() as still_open:
        await shop.repository.open_tree(folder, "waybook/p/s", "main")
        former_file = os.fstat(still_open.fileno())
        assert not os.path.samestat(former_file, (folder / "README.md").stat())
    later = make_record(shop, {**step, "attempt": 2}, "later", folder)
    await shop.clear(former)
    assert read_record(later.path) == later
    assert (folder / "README.md").exists()
    await shop.clear(later)
    assert place.leftovers() == []
