"""Scopes that each tool requires, and permission to decide reviews."""

import json
from dataclasses import replace

import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from waybook.app.registry import TOOLS
from waybook.core.decision_context import ALL_SCOPES, Channel, ReviewPolicy, Scope, expand_scopes
from waybook.errors import Forbidden
from waybook.plan.review import ReviewSurface
from waybook.store.driver.queries import new_uuid

READ = {Scope.PLAN_READ}
WRITE = {Scope.PLAN_WRITE}
RUN = {Scope.RUN_WRITE}

NEEDS = {
    "get_next_step": WRITE,
    "submit_step_result": WRITE,
    "create_research_plan": WRITE,
    "get_step_context": READ,
    "get_plan_status": READ,
    "list_active_plans": READ,
    "get_research_context": READ,
    "request_user_review": WRITE,
    "submit_user_decision": {Scope.PLAN_WRITE, Scope.REVIEW},
    "modify_plan": WRITE,
    "copy_plan": WRITE,
    "store_research_output": WRITE,
    "list_skills": READ,
    "start_skill": WRITE,
    "complete_skill": WRITE,
    "store_research": WRITE,
    "search_sources": READ,
    "get_artifact": READ,
    "extract_data": WRITE,
    "list_dags": READ,
    "get_dag_map": READ,
    "start_run": RUN,
    "copy_run": RUN,
    "get_next_job": RUN,
    "submit_job_result": RUN,
    "fail_job": RUN,
    "get_job_input": READ,
    "get_run_progress": READ,
    "submit_stage_feedback": {Scope.RUN_WRITE, Scope.REVIEW},
    "start_stage": RUN,
    "retry_failed": RUN,
    "regenerate_document": RUN,
    "cancel_run": RUN,
    "add_dag": {Scope.ADMIN},
    "reserve_work": {Scope.PLAN_WRITE, Scope.RUN_WRITE},
    "settle_work": {Scope.PLAN_WRITE, Scope.RUN_WRITE},
    "give_back": {Scope.PLAN_WRITE, Scope.RUN_WRITE},
    "report_worker": {Scope.PLAN_WRITE, Scope.RUN_WRITE},
    "decide_cap": {Scope.REVIEW},
    "comment": {Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW},
    "draw_map": READ,
    "ping": READ,
}


def with_scopes(agent: AgentClient, *scopes: Scope, **more: object) -> AgentClient:
    """Return an agent of the same user, but with these scopes."""
    caller = replace(agent.caller, scopes=expand_scopes(scopes), **more)  # type: ignore[arg-type]
    return AgentClient(agent.dispatcher, caller)


def test_every_tool_requires_exactly_the_listed_scopes() -> None:
    assert {name: set(tool.scopes) for name, tool in TOOLS.items()} == NEEDS


def test_every_scope_includes_permission_to_read_plans() -> None:
    assert all(Scope.PLAN_READ in expand_scopes([scope]) for scope in Scope)
    assert expand_scopes([Scope.ADMIN]) == ALL_SCOPES


@pytest.mark.parametrize("scope", Scope)
async def test_tool_call_without_required_scope_is_forbidden(world: OrgEnv, scope: Scope) -> None:
    holder = with_scopes(world.agent, scope)
    for name, needed in NEEDS.items():
        refused = (await holder.ask(name, {})).body.get("error")
        shut = isinstance(refused, dict) and refused["code"] == "FORBIDDEN"
        assert shut == needed.isdisjoint(expand_scopes([scope])), name
        if shut:
            assert refused["details"]["needed"] == sorted(needed)  # type: ignore[index]


async def test_caller_without_scopes_can_call_and_read_nothing(world: OrgEnv) -> None:
    unscoped = with_scopes(world.agent)
    assert [
        # The server checks the scope before the arguments, so a call without arguments is enough.
        (await unscoped.refused(name)).get("code")
        for name in NEEDS
    ] == ["FORBIDDEN"] * len(NEEDS)
    dispatcher, caller, somewhere = unscoped.dispatcher, unscoped.caller, new_uuid()
    reads = (dispatcher.read_document, dispatcher.read_output, dispatcher.list_outputs)
    for read in (*reads, dispatcher.read_review):
        with pytest.raises(Forbidden):
            await read(caller, somewhere)


async def make_review(asker: AgentClient) -> Body:
    plan = await asker.plan([make_step("Look."), make_step("Write.")])
    taken = await asker.take(plan)
    await asker.call("request_user_review", stepId=taken["stepId"], summary="Good?")
    return plan


async def test_agent_can_submit_a_decision_if_review_policy_is_relayed(world: OrgEnv) -> None:
    agent = with_scopes(world.agent, Scope.PLAN_WRITE, credential="token:1")
    plan = await make_review(agent)
    reply = await agent.call("submit_user_decision", planId=plan["planId"], decision="approve")
    assert reply["decision"] == "approve"


@pytest.mark.parametrize(
    ("scopes", "credential"),
    [
        ([Scope.PLAN_WRITE], "token:1"),
        ([Scope.PLAN_WRITE], "token:2"),
        ([Scope.PLAN_WRITE, Scope.REVIEW], "token:1"),
        ([Scope.ADMIN], "token:1"),
    ],
    ids=["the asker", "another agent", "the asker, who may review others", "the asker, an admin"],
)
async def test_decision_by_an_agent_is_refused_if_review_policy_is_human(
    world: OrgEnv, scopes: list[Scope], credential: str
) -> None:
    await world.set_policy(ReviewPolicy.HUMAN)
    asker = with_scopes(world.agent, *scopes, credential="token:1")
    plan = await make_review(asker)
    decider = with_scopes(world.agent, *scopes, credential=credential)
    for channel in (Channel.MCP, Channel.DASHBOARD, Channel.CLI):
        at = AgentClient(decider.dispatcher, replace(decider.caller, channel=channel))
        for decision in ("approve", "reject", "skip", "modify"):
            args = {"planId": plan["planId"], "decision": decision, "feedback": "So."}
            for place in (None, *ReviewSurface):
                refused = await at.refused("submit_user_decision", **args, place=place)
                assert refused["code"] == "FORBIDDEN"
                assert refused["details"]["reviewPolicy"] == "human"
                assert refused["next"]["tool"] == "get_plan_status"
    assert (await asker.status(plan))["status"] == "awaiting_review"


@pytest.mark.parametrize("channel", [Channel.DASHBOARD, Channel.MCP])
async def test_decision_by_a_person_is_accepted_if_review_policy_is_human(
    world: OrgEnv, channel: Channel
) -> None:
    await world.set_policy(ReviewPolicy.HUMAN)
    asker = with_scopes(world.agent, Scope.PLAN_WRITE, credential="token:1")
    plan = await make_review(asker)
    person = with_scopes(world.agent, Scope.REVIEW, credential="session:9", channel=channel)
    await person.call("submit_user_decision", planId=plan["planId"], decision="approve")
    last = (await world.entries(world.agent.org_id, plan["planId"]))[-1]
    assert (last.event, last.actor, last.channel) == ("user_reviewed", "ann", channel)
    assert json.loads(last.details)["decidedAs"] == "session:9"


async def test_stage_feedback_requires_review_scope_if_policy_is_human(world: OrgEnv) -> None:
    await world.set_policy(ReviewPolicy.HUMAN)
    worker = with_scopes(world.agent, Scope.RUN_WRITE, credential="token:1")
    run = await worker.run()
    await worker.work_off(run)
    stage = (await worker.call("get_run_progress", runId=run["runId"]))["stages"][0]["stageSlug"]
    args = {"runId": run["runId"], "stageSlug": stage, "feedback": "Go on."}
    assert (await worker.refused("submit_stage_feedback", **args))["code"] == "FORBIDDEN"
    person = with_scopes(world.agent, Scope.REVIEW, credential="session:9")
    assert (await person.call("submit_stage_feedback", **args))["started"]
