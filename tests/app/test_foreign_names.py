"""Names of sessions, idempotency keys, workflows and cursors have an effect in one org only."""

import json

import pytest

from org_env import AgentClient, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.background import index_all_orgs

WORD = "quetzalcoatlus"


async def test_same_session_name_in_another_org_has_no_effect(
    agent: AgentClient, other_org: AgentClient
) -> None:
    theirs = await other_org.plan()
    await other_org.take(theirs, sessionId="the same")
    run = await other_org.run()
    await other_org.job(run, sessionId="the same")
    skill = await other_org.call("start_skill", name="survey", sessionId="the same")
    plan = await agent.plan(sessionId="the same")
    taken = await agent.take(plan, sessionId="the same")
    assert taken.get("resumed") is not True
    assert (await agent.call("get_next_job", sessionId="the same"))["status"] == "nothing_ready"
    assert skill["skillExecutionId"] not in json.dumps(plan)


async def test_idempotency_key_used_by_other_org_can_be_used_again(
    agent: AgentClient, other_org: AgentClient
) -> None:
    theirs = await other_org.plan(idempotencyKey="the same", name="Theirs")
    ours = await agent.plan(idempotencyKey="the same", name="Ours")
    assert ours["planId"] != theirs["planId"]
    assert "replayed" not in ours
    again = await agent.plan(idempotencyKey="the same", name="Ours")
    assert (again["planId"], again["replayed"]) == (ours["planId"], True)


async def test_workflow_slug_of_another_org_can_be_reused(
    agent: AgentClient, other_org: AgentClient
) -> None:
    stage = make_stage("views", make_recipe_step("view"))
    await other_org.call("add_dag", definition=make_definition("theirs", stage))
    await other_org.run("theirs")
    for tool, more in (("get_dag_map", {}), ("draw_map", {}), ("start_run", A_RUN)):
        theirs = await agent.refused(tool, dagSlug="theirs", **more)
        assert theirs == await agent.refused(tool, dagSlug="nobodys", **more), tool
    assert "theirs" not in json.dumps(await agent.call("list_dags"))
    added = await agent.call("add_dag", definition=make_definition("theirs", stage))
    assert added["version"] == 1


async def test_run_uses_own_workflow_if_two_orgs_share_a_slug(
    agent: AgentClient, other_org: AgentClient
) -> None:
    runs = []
    for who, step in ((other_org, "theirs"), (agent, "ours")):
        definition = make_definition("same", make_stage("views", make_recipe_step(step)))
        await who.call("add_dag", definition=definition)
        runs.append(await who.run("same"))
    # The first claim reads the definition from the database, the second one from the cache.
    for who, run, step in ((other_org, runs[0], "theirs"), (agent, runs[1], "ours")):
        assert [(await who.job(run))["stepKey"] for _ in "ab"] == [step, step]
        assert f'"{step}"' in json.dumps(await who.progress(run, detail=True))


A_RUN = {"name": "Rivers", "input": "x", "models": ["a"]}


async def test_cursor_of_another_org_lists_only_own_plans(
    agent: AgentClient, other_org: AgentClient
) -> None:
    for _ in range(2):
        await other_org.plan(name=WORD)
    cursor = (await other_org.call("list_active_plans", limit=1))["nextCursor"]
    ours = await agent.plan()
    page = await agent.call("list_active_plans", cursor=cursor)
    assert page["total"] == 1
    assert {plan["planId"] for plan in page["plans"]} <= {ours["planId"]}


@pytest.mark.parametrize("kind", ["finding", "note"])
async def test_search_sources_returns_no_hits_from_other_org(world: OrgEnv, kind: str) -> None:
    agent, other_org = world.agent, world.other_org
    args = {"kind": kind, "title": WORD, "content": f"The {WORD} flew over lakes."}
    source = {"title": f"On the {WORD}", "url": f"https://example.org/{WORD}"}
    await other_org.call("store_research", **args, sources=[source], tags=[WORD])
    await index_all_orgs(world.dispatcher.services)
    for filters in ({}, {"tags": [WORD]}, {"kinds": [kind]}):
        reply = await agent.call("search_sources", query=f"the {WORD} over lakes", **filters)
        assert WORD not in json.dumps(reply["hits"])
        assert len((await other_org.call("search_sources", query=WORD, **filters))["hits"]) > 0


async def test_same_source_in_two_orgs_is_stored_separately(
    agent: AgentClient, other_org: AgentClient
) -> None:
    source = {"title": "The Nile", "url": "https://example.org/nile", "quote": "Long."}
    args = {"kind": "note", "title": "Nile", "content": "It is long.", "sources": [source]}
    theirs = await other_org.call("store_research", **args)
    ours = await agent.call("store_research", **args)
    # The id of a source is a hash of its content, so callers who have the content can compute the
    # id anyway.
    assert ours["sourceIds"] == theirs["sourceIds"]
    read = await agent.call("get_artifact", artifactId=ours["sourceIds"][0])
    assert theirs["artifactId"] not in json.dumps(read)
