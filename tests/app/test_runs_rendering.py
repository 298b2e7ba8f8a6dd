"""The server renders documents without blocking other work."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, make_env
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from run_documents import make_run_of_three_steps, pages, render_all
from sample_definitions import make_definition, make_recipe_step, make_stage
from statements import lock_rows
from waybook.app.operations import rendering as render_documents
from waybook.background import render_all_orgs
from waybook.dag.templates.rendering import Rendered, render


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    return await make_run_of_three_steps(agent)


async def test_rendered_document_is_available_and_has_no_scripts(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    await agent.submit_documents(await agent.job(run))
    for _ in "ab":
        await agent.submit_documents(
            await agent.job(run), "# Hello\n\n<script>alert(1)</script> *you*"
        )
    await agent.work_off(run)
    assert (await agent.progress(run))["stages"][0]["documentsAvailable"] == 0
    assert await render_all(agent) == 3
    stage = (await agent.progress(run))["stages"][0]
    assert (stage["documentsExpected"], stage["documentsAvailable"]) == (3, 3)
    assert {row[0] for row in await pages(world, agent)} == {"text", "whole"}
    html = next(row[4] for row in await pages(world, agent) if row[0] == "text")
    assert "<script" not in html
    assert "<em>you</em>" in html


async def test_render_template_can_use_data_of_run_stage_step_and_document(
    world: OrgEnv, agent: AgentClient
) -> None:
    template = (
        "{{ run.name }}, {{ run.input.topic }}, {{ stage.name }}, {{ step.name }}, "
        "{{ document.title }} {{ document.version }} of {{ document.model }}: {{ content.word }}"
    )
    outputs = [{"documentKey": "a_view", "render": template}]
    step = make_recipe_step("view", outputs=outputs, name="Have a view")
    await agent.call("add_dag", definition=make_definition("views", make_stage("views", step)))
    run = await agent.run("views", "a", input={"topic": "tea"})
    await agent.submit_documents(await agent.job(run), {"word": "yes"})
    await render_all(agent)
    ((*_, markdown, _),) = await pages(world, agent)
    assert markdown == "Rivers, tea, views, Have a view, A view 1 of a: yes"


async def test_slow_rendering_does_not_block_agents_or_other_renderers(
    world: OrgEnv, agent: AgentClient, run: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.submit_documents(await agent.job(run))
    await agent.submit_documents(await agent.job(run))
    at_work, go_on = threading.Event(), threading.Event()

    def slow_at_first(template: str | None, context: Any) -> Rendered:  # noqa: ANN401 - as the original
        if not at_work.is_set():
            at_work.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return render(template, context)

    monkeypatch.setattr(render_documents, "render", slow_at_first)
    rendering = asyncio.create_task(render_all(agent))
    assert await asyncio.to_thread(at_work.wait, 20)
    await agent.submit_documents(await agent.job(run))
    assert await render_all(agent) == 1
    assert len(await pages(world, agent)) == 1
    go_on.set()
    assert await rendering == 1
    assert len(await pages(world, agent)) == 2


async def test_locked_run_does_not_block_rendering_of_other_runs(
    env_with_short_lock_wait: OrgEnv, caplog: pytest.LogCaptureFixture
) -> None:
    agent = env_with_short_lock_wait.agent
    views = make_definition("views", make_stage("views", make_recipe_step("view")))
    await agent.call("add_dag", definition=views)
    first, second = await agent.run("views", "a"), await agent.run("views", "a")
    for run in (first, second):
        await agent.work_off(run)
    async with env_with_short_lock_wait.database.org_transaction(agent.org_id) as tx:
        await tx.send(lock_rows("run", first["runId"]))
        assert await render_all(agent) == 1
    assert f"the documents of run {first['runId']} will be rendered later" in caplog.text
    assert await render_all(agent) == 1


@pytest.fixture
async def env_with_short_lock_wait(shared_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(shared_place, lock_timeout="50ms") as world:
        yield world


async def test_background_rendering_renders_documents_of_every_org(
    world: OrgEnv, agent: AgentClient, other_org: AgentClient
) -> None:
    world.other_org_may_change = True
    for org_agent in (agent, other_org):
        await org_agent.work_off(await org_agent.run())
    await render_all_orgs(world.dispatcher.services)
    assert len(await pages(world, agent)) == len(await pages(world, other_org)) == 1
