"""Helpers for tests of run documents."""

from typing import Any

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.operations.rendering import render_documents
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel


async def make_run_of_three_steps(agent: AgentClient) -> Body:
    """Start a run with three steps: plan, write a text for each plan, combine the texts."""
    outputs = [{"documentKey": "plan"}]
    plan = make_recipe_step("plan", "all_to_one", jobType="PLAN", outputs=outputs)
    text = make_recipe_step("text", "per_source_document", inputsRequired=[{"documentKey": "plan"}])
    combined = make_recipe_step("whole", "all_to_one", inputsRequired=[{"documentKey": "text"}])
    stage = make_stage("work", plan, text, combined, edges=[("plan", "text"), ("text", "whole")])
    await agent.call("add_dag", definition=make_definition("three-steps", stage))
    return await agent.run("three-steps")


async def stored_documents(world: OrgEnv, agent: AgentClient) -> list[tuple[Any, ...]]:
    query = """select document_key, model, version, content from document
                order by document_key, version, model"""
    return (await world.database.read_org(agent.org_id, query))[0]


async def pages(world: OrgEnv, agent: AgentClient) -> list[tuple[Any, ...]]:
    query = """select d.document_key, d.model, d.version, h.markdown, h.html
                 from rendered_document h
                 join document d on d.org_id = h.org_id and d.id = h.document_id
                order by h.id"""
    return (await world.database.read_org(agent.org_id, query))[0]


async def available(agent: AgentClient, run: Body) -> dict[tuple[str, str], str]:
    """Return the ids of the rendered documents of a run, by document key and model."""
    stages = (await agent.progress(run, detail=True))["stages"]
    documents = [document for stage in stages for document in stage["documents"]]
    resources = {(d["documentKey"], d["modelId"]): d["resourceId"] for d in documents}
    assert len(resources) == len(documents)
    return resources


async def render_all(agent: AgentClient) -> int:
    caller = Caller(org_id=agent.org_id, user="waybook", channel=Channel.SWEEP)
    call = RequestContext(services=agent.dispatcher.services, caller=caller)
    rendered = 0
    while some := await render_documents(call):
        rendered += some
    return rendered
