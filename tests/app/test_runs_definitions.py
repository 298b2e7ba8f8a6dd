"""Workflow definitions of an org: versions, the version of a run, and refused definitions."""

import asyncio
import json
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv
from report_invariants import check
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.request import definition_cache


def views(prompt: str = "Look.") -> Body:
    """Return a workflow definition with a single stage, which has a single step."""
    return make_definition("views", make_stage("views", make_recipe_step("view", prompt=prompt)))


async def version_of(agent: AgentClient, run: Body) -> int:
    version: int = (await agent.call("get_dag_map", runId=run["runId"]))["version"]
    return version


async def test_add_dag_stores_repeated_definition_once(agent: AgentClient) -> None:
    added = await agent.call("add_dag", definition=views())
    assert (added["dagSlug"], added["version"], added["status"]) == ("views", 1, "added")
    for same in (views(), json.dumps(views()), dict(reversed(views().items()))):
        again = await agent.call("add_dag", definition=same)
        assert (again["version"], again["status"]) == (1, "unchanged")


async def test_add_dag_with_changed_definition_creates_new_version(agent: AgentClient) -> None:
    texts = ["First.", "Second.", "First."]
    added = [await agent.call("add_dag", definition=views(prompt=text)) for text in texts]
    assert [reply["version"] for reply in added] == [1, 2, 3]
    listed = (await agent.call("list_dags"))["dags"]
    assert [dag["version"] for dag in listed if dag["dagSlug"] == "views"] == [3]


async def test_run_keeps_the_definition_version_after_new_version_is_added(
    agent: AgentClient,
) -> None:
    await agent.call("add_dag", definition=views(prompt="The first version."))
    first = await agent.run("views")
    later = make_definition(
        "views",
        make_stage(
            "views", make_recipe_step("view", prompt="The second."), make_recipe_step("more")
        ),
    )
    await agent.call("add_dag", definition=later)
    second = await agent.run("views")
    assert [await version_of(agent, run) for run in (first, second)] == [1, 2]
    assert (await agent.job(first))["prompt"] == "The first version."
    assert (await agent.job(second))["prompt"] == "The second."
    steps = [(await agent.progress(run))["stages"][0]["steps"] for run in (first, second)]
    assert [len(stage_steps) for stage_steps in steps] == [1, 2]
    assert (await agent.work_off(first))["status"] == "nothing_ready"


async def test_run_keeps_the_definition_version_after_cache_reset(agent: AgentClient) -> None:
    await agent.call("add_dag", definition=views(prompt="The first version."))
    run = await agent.run("views")
    await agent.call("add_dag", definition=views(prompt="The second."))
    # The cache of definitions is empty, as in a new process.
    agent.dispatcher.services.parts.clear()
    assert (await agent.job(run))["prompt"] == "The first version."


async def test_workflow_definition_of_org_overrides_builtin_definition(
    agent: AgentClient, other_org: AgentClient, world: OrgEnv
) -> None:
    world.other_org_may_change = True
    shipped = await agent.run("deep-research")
    mine = {**views(prompt="My own way."), "slug": "deep-research"}
    added = await agent.call("add_dag", definition=mine)
    assert (added["version"], added["status"]) == (2, "added")
    run = await agent.run("deep-research")
    assert (run["version"], run["stages"][0]["stageSlug"]) == (2, "views")
    assert (await agent.job(run))["prompt"] == "My own way."
    assert (await agent.job(shipped))["stageSlug"] == "scope"
    dag_map = await agent.call("get_dag_map", dagSlug="deep-research")
    assert [stage["stageSlug"] for stage in dag_map["stages"]] == ["views"]
    listed = (await agent.call("list_dags"))["dags"]
    assert [len(d["stages"]) for d in listed if d["dagSlug"] == "deep-research"] == [1]
    theirs = await other_org.run("deep-research")
    assert (theirs["version"], theirs["stages"][0]["stageSlug"]) == (1, "scope")


async def test_new_builtin_version_applies_only_to_new_runs(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = definition_cache.compile_definition(
        {**views(prompt="As it was."), "slug": "dialectic"}, 1
    )
    monkeypatch.setattr(definition_cache, "builtin_dags", lambda: {"dialectic": older})
    before = await agent.run("dialectic")
    assert (before["version"], before["stages"][0]["stageSlug"]) == (1, "views")
    monkeypatch.undo()
    for dag in (
        await agent.call("get_dag_map", dagSlug="dialectic"),
        next(d for d in (await agent.call("list_dags"))["dags"] if d["dagSlug"] == "dialectic"),
    ):
        assert (dag["version"], len(dag["stages"])) == (2, 5)
    after = [await agent.run("dialectic") for _ in range(2)]
    assert {(run["version"], run["stages"][0]["stageSlug"]) for run in after} == {(2, "thesis")}
    assert (await agent.job(before))["prompt"] == "As it was."


async def test_workflow_added_by_user_named_waybook_overrides_builtin_workflow(
    agent: AgentClient,
) -> None:
    waybook = agent.acting_as("waybook")
    await waybook.call("add_dag", definition={**views(), "slug": "dialectic"})
    assert (await agent.run("dialectic"))["stages"][0]["stageSlug"] == "views"


async def test_concurrently_added_workflow_versions_are_numbered_consecutively(
    agent: AgentClient, world: OrgEnv
) -> None:
    definitions = [views(prompt=f"Way {n}.") for n in range(12)]
    added = await asyncio.gather(*[agent.call("add_dag", definition=dag) for dag in definitions])
    assert sorted(dag["version"] for dag in added) == [*range(1, 13)]
    counted = "select count(*), max(version) from dag_definition where slug = 'views'"
    (rows,) = await world.database.read_org(agent.org_id, counted)
    assert rows == [(12, 12)]


async def test_concurrent_first_runs_store_builtin_definition_once(
    agent: AgentClient, world: OrgEnv
) -> None:
    runs = await asyncio.gather(*[agent.run("deep-research") for _ in range(8)])
    assert {run["version"] for run in runs} == {1}
    counted = "select count(*) from dag_definition"
    (rows,) = await world.database.read_org(agent.org_id, counted)
    assert rows == [(1,)]


def faulty() -> Body:
    """Return a workflow definition with one error in each stage and transition."""
    round_ = make_stage(
        "round", make_recipe_step("a"), make_recipe_step("b"), edges=[("a", "b"), ("b", "a")]
    )
    loose = make_stage("loose", make_recipe_step("a"), edges=[("a", "nowhere")])
    wordy = make_stage("wordy", make_recipe_step("a", prompt="{{ nobody }}"))
    needs = make_recipe_step("b", inputsRequired=[{"documentKey": "a"}])
    hidden = make_stage("hidden", make_recipe_step("a"), needs)
    ways = [{"from": "round", "to": "gone"}]
    return make_definition("faulty", round_, loose, wordy, hidden, transitions=ways)


async def test_add_dag_with_invalid_definition_lists_every_error(
    agent: AgentClient, world: OrgEnv
) -> None:
    error = await agent.refused("add_dag", definition=faulty())
    assert error["code"] == "BAD_RECIPE"
    diagnostics = [(fault["fault"], fault["at"]) for fault in error["details"]["faults"]]
    assert diagnostics == [
        ("unknown_stage", "transitions[0].to"),
        ("cycle", "stages[0].recipe.edges"),
        ("dangling_edge", "stages[1].recipe.edges[0]"),
        ("hidden_dependency", "stages[3].recipe.steps[1].inputsRequired[0]"),
        ("bad_template", "stages[2].recipe.steps[0].prompt"),
    ]
    (rows,) = await world.database.read_org(agent.org_id, "select count(*) from dag_definition")
    assert rows == [(0,)]
    assert (await agent.refused("start_run", **_start("faulty")))["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    "definition",
    [{}, [], "x", 3, {"slug": "x"}, {"slug": "x", "stages": []}, {"slug": "", "stages": [1]}],
    ids=str,
)
async def test_add_dag_with_malformed_definition_returns_bad_recipe(
    agent: AgentClient, definition: object
) -> None:
    error = await agent.refused("add_dag", definition=definition)
    assert error["code"] == "BAD_RECIPE"
    assert error["details"]["faults"]


async def test_add_dag_error_stays_within_size_limit_with_many_faults(agent: AgentClient) -> None:
    steps = [make_recipe_step("é" * 100 + str(n), "nonsense") for n in range(500)]
    answer = await agent.ask(
        "add_dag", {"definition": make_definition("x", make_stage("s", *steps))}
    )
    assert answer.is_error
    assert len(json.dumps(answer.body, ensure_ascii=False).encode()) < 48_000


async def test_start_run_and_get_dag_map_refuse_unknown_workflow(agent: AgentClient) -> None:
    error = await agent.refused("start_run", **_start("nowhere"))
    assert (error["code"], error["next"]["tool"]) == ("NOT_FOUND", "list_dags")
    assert (await agent.refused("get_dag_map", dagSlug="nowhere"))["code"] == "NOT_FOUND"


def _start(slug: str) -> Body:
    return {"dagSlug": slug, "name": "x", "input": "x", "models": ["a"]}


async def test_workflow_slugs_and_step_keys_may_contain_any_characters(agent: AgentClient) -> None:
    """Joined by a slash, the pairs (`a`, `b/c`) and (`a/b`, `c`) would become the same text."""
    names = [("a", "b/c"), ("a/b", "c"), ("~1", "'; drop table job; --"), ("☃ %s", "{{ x }}")]
    stages = [make_stage(slug, make_recipe_step(key)) for slug, key in names]
    await agent.call("add_dag", definition=make_definition("names / 100%", *stages))
    run = await agent.run("names / 100%", models=["anthropic/opus", "it's", "☃"])
    before: Any = None
    waiting: Body = {}
    for slug, _ in names:
        waiting = await agent.work_off(run)
        report: Any = await agent.progress(run)
        assert check(report, before) == []
        before = report
        if slug != names[-1][0]:
            assert (waiting["status"], waiting["stageSlug"]) == ("awaiting_feedback", slug)
            await agent.feedback(run, slug)
    assert waiting["status"] == "run_complete"
    steps_by_stage = {stage["stageSlug"]: stage["steps"][0] for stage in before["stages"]}
    assert {slug: step["stepKey"] for slug, step in steps_by_stage.items()} == dict(names)
    assert all(
        step["jobs"] == {"done": 3, "active": 0, "failed": 0} for step in steps_by_stage.values()
    )


def stage_of(slug: str, steps: int, strategy: str = "all_to_one") -> Body:
    """Return a stage of this many steps, none of which depends on another."""
    return make_stage(slug, *(make_recipe_step(f"{slug}_{n}", strategy) for n in range(steps)))


async def test_add_dag_refuses_a_stage_with_too_many_steps(agent: AgentClient) -> None:
    added = await agent.call("add_dag", definition=make_definition("large", stage_of("a", 500)))
    assert added["status"] == "added"
    await agent.run("large")
    error = await agent.refused(
        "add_dag", definition=make_definition("large", stage_of("a", 1), stage_of("b", 501))
    )
    assert (error["code"], error["details"]["stageSlug"]) == ("TOO_LARGE", "b")
    assert error["details"]["limit"] == 500
    assert "Split it into several stages" in error["message"]
    listed = (await agent.call("list_dags"))["dags"]
    assert [dag["version"] for dag in listed if dag["dagSlug"] == "large"] == [1]


async def test_add_dag_refuses_a_stage_with_too_many_jobs(agent: AgentClient) -> None:
    """Each of the 500 lineages of the first stage gives each step of the second stage a job."""
    stages = [stage_of("a", 500, "per_model"), stage_of("b", 40, "per_source_document_by_lineage")]
    added = await agent.call("add_dag", definition=make_definition("exact", *stages))
    assert added["status"] == "added"
    more = [stages[0], stage_of("b", 41, "per_source_document_by_lineage")]
    error = await agent.refused("add_dag", definition=make_definition("more", *more))
    assert (error["code"], error["details"]["limit"]) == ("TOO_LARGE", 20_000)
    assert "20,500 jobs with a single model" in error["message"]
