"""Outputs stored by `store_research_output`, and their list in replies about completed plans."""

import asyncio
import json

import psycopg
import pytest

from org_env import AgentClient, Body, OrgEnv
from waybook.app.operations.audit_verification import verify_subject
from waybook.app.queries.documents import plan_outputs, read_output
from waybook.app.request.caller import Answer
from waybook.app.request.request_context import RequestContext
from waybook.store.audit import Subject
from waybook.store.driver.queries import new_uuid


async def deliver(
    agent: AgentClient, plan: Body, content: str = "# Rivers", **more: object
) -> Body:
    named = {"mediaType": "text/markdown", "title": "Rivers", **more}
    return await agent.call(
        "store_research_output", planId=plan["planId"], content=content, **named
    )


async def make_done_plan(agent: AgentClient, **more: object) -> Body:
    plan = await agent.plan(1, **more)
    await agent.work_through(plan)
    return plan


def seen_by(agent: AgentClient) -> RequestContext:
    return RequestContext(services=agent.dispatcher.services, caller=agent.caller)


async def test_stored_output_can_be_read_back(agent: AgentClient) -> None:
    plan = await make_done_plan(agent)
    stored = await deliver(agent, plan, "# Rivers\n\n“Nile” ☃")
    assert (stored["status"], stored["version"], stored["mediaType"]) == (
        "stored",
        1,
        "text/markdown",
    )
    assert stored["downloadUrl"].endswith(f"/api/outputs/{stored['outputId']}")
    assert stored["resource"] == f"waybook://outputs/{stored['outputId']}"
    output = await read_output(seen_by(agent), stored["outputId"])
    assert (output.plan_id, output.content) == (plan["planId"], "# Rivers\n\n“Nile” ☃")
    assert output.file_name == "Rivers.v1.md"


async def test_storing_output_leaves_completed_plan_and_steps_unchanged(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await make_done_plan(agent)
    before = await world.stored(agent.org_id, plan["planId"])
    stored = await deliver(agent, plan)
    after = await world.stored(agent.org_id, plan["planId"])
    assert set(after.pop("artifact")) == {stored["outputId"]}
    assert after == before
    last = (await world.entries(agent.org_id, plan["planId"]))[-1]
    details = json.loads(last.details)
    assert (last.event, details["action"]) == ("plan_modified", "output_stored")
    assert "# Rivers" not in last.details


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"mediaType": "image/png"}, "INVALID_INPUT"),
        ({"mediaType": "nonsense"}, "INVALID_INPUT"),
        ({"mediaType": "application/json", "content": "{"}, "INVALID_INPUT"),
        ({"title": "x" * 201}, "TOO_LARGE"),
        ({"content": ""}, "INVALID_INPUT"),
        ({"content": {"a": 1}}, "INVALID_INPUT"),
        ({"content": "x" * 1_048_577}, "TOO_LARGE"),
        ({"content": "a\0b"}, "INVALID_INPUT"),
    ],
)
async def test_store_research_output_refuses_invalid_arguments(
    world: OrgEnv, agent: AgentClient, changed: Body, code: str
) -> None:
    plan = await make_done_plan(agent)
    before = await world.stored(agent.org_id, plan["planId"])
    args = {"mediaType": "text/plain", "title": "T", "content": "x", **changed}
    error = await agent.refused("store_research_output", planId=plan["planId"], **args)
    assert error["code"] == code
    assert await world.stored(agent.org_id, plan["planId"]) == before


async def test_output_of_nearly_a_mebibyte_is_stored(agent: AgentClient) -> None:
    plan = await make_done_plan(agent)
    stored = await deliver(agent, plan, "x" * 1_048_000)
    assert len((await read_output(seen_by(agent), stored["outputId"])).content) == 1_048_000


async def test_outputs_stored_concurrently_get_distinct_versions(agent: AgentClient) -> None:
    plan = await make_done_plan(agent)
    both = await asyncio.gather(deliver(agent, plan, "one"), deliver(agent, plan, "two"))
    assert sorted(output["version"] for output in both) == [1, 2]


async def complete(agent: AgentClient, plan: Body) -> Body:
    return await agent.call("get_next_step", planId=plan["planId"])


async def test_completed_plan_reply_asks_for_output_required_by_skill(agent: AgentClient) -> None:
    started = await agent.call("start_skill", name="survey", sessionId="s")
    plan = await make_done_plan(agent, sessionId="s")
    reply = await complete(agent, plan)
    assert (reply["outputs"], reply["outputMissing"]) == ([], True)
    expected = {"planId": plan["planId"], "mediaType": "text/markdown"}
    assert (reply["next"]["tool"], reply["next"]["args"]) == ("store_research_output", expected)
    await deliver(agent, plan, "a,b", mediaType="text/csv")
    assert (await complete(agent, plan))["outputMissing"] is True
    stored = await deliver(agent, plan)
    reply = await complete(agent, plan)
    assert reply["outputMissing"] is False
    assert reply["next"] == stored["next"]
    ending = {"skillExecutionId": started["skillExecutionId"]}
    assert (reply["next"]["tool"], reply["next"]["args"]) == ("complete_skill", ending)
    await agent.call("complete_skill", **ending)
    assert (await complete(agent, plan))["next"]["tool"] == "list_active_plans"


async def test_completed_plan_without_skill_reports_no_missing_output(agent: AgentClient) -> None:
    plan = await make_done_plan(agent)
    reply = await complete(agent, plan)
    assert reply["outputMissing"] is False
    assert reply["next"]["tool"] == "get_research_context"
    await deliver(agent, plan)
    assert (await complete(agent, plan))["next"]["tool"] == "list_active_plans"


async def test_completed_plan_lists_latest_version_of_each_output(
    agent: AgentClient, world: OrgEnv
) -> None:
    plan = await make_done_plan(agent)
    await deliver(agent, plan)
    world.clock.advance(minutes=1)
    more = await deliver(agent, plan, "# More")
    world.clock.advance(minutes=1)
    table = await deliver(agent, plan, "a,b", mediaType="text/csv", title="Table")
    reply = await complete(agent, plan)
    assert [output["outputId"] for output in reply["outputs"]] == [
        table["outputId"],
        more["outputId"],
    ]
    assert set(reply["outputs"][0]) == {
        *("outputId", "title", "mediaType", "version", "createdAt", "createdBy")
    }


async def test_audit_verification_reports_changed_output_text(own_world: OrgEnv) -> None:
    agent = own_world.agent
    plan = await make_done_plan(agent)
    stored = await deliver(agent, plan)
    subject = Subject("plan", plan["planId"])
    assert (await verify_subject(seen_by(agent), subject)).ok
    rewrite(own_world, "# Sewers")
    verdict = await verify_subject(seen_by(agent), subject)
    assert any(stored["outputId"] in fault for fault in verdict.errors)
    rewrite(own_world, "# Rivers")


def rewrite(world: OrgEnv, text: str) -> None:
    """Change the text of outputs in the database, without the server."""
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as owner:
        params = (json.dumps(text),)
        owner.execute("update artifact set content = %s::json where kind = 'output'", params)


async def test_reading_output_of_other_org_fails_like_unknown_output(
    agent: AgentClient, world: OrgEnv
) -> None:
    world.other_org_may_change = True
    theirs = await deliver(world.other_org, world.other_org_plan)
    answers = []
    for output_id in (theirs["outputId"], new_uuid(), "nope"):
        with pytest.raises(Exception, match="no output with this id") as refused:
            await read_output(seen_by(agent), output_id)
        answers.append(str(refused.value))
    assert len(set(answers)) == 1
    with pytest.raises(Exception, match="no plan with this id"):
        await plan_outputs(seen_by(agent), world.other_org_plan["planId"])


async def test_late_result_cannot_be_read_as_output(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    late: Answer = await agent.ask(
        "submit_step_result", {"stepId": taken["stepId"], "resultSummary": "x", "attempt": 9}
    )
    artifact_id = late.body["error"]["details"]["artifactId"]  # type: ignore[index]  # an error is an object
    with pytest.raises(Exception, match="no output with this id"):
        await read_output(seen_by(agent), artifact_id)
