"""Ids in calls: other spellings are accepted, and an error names the argument whose id is wrong."""

import json
from collections.abc import Iterator

import pytest

from foreign_ids import PLACES, foreign_id_calls
from org_env import AgentClient, OrgEnv, make_step
from tool_calls import MUTATING, valid_call
from waybook.app.registry import TOOLS
from waybook.app.request.locks import locking
from waybook.core.ids import ALPHABET
from waybook.store.driver.queries import new_id

NAMES = frozenset({"planId", "stepId", "stepIds", "runId", "jobId", "reviewId"})


def mistyped(row_id: str) -> Iterator[str]:
    """Yield texts that each differ from the id in one character."""
    for place in (0, 4, 11):
        other = ALPHABET[(ALPHABET.index(row_id[place]) + 1) % len(ALPHABET)]
        yield f"{row_id[:place]}{other}{row_id[place + 1 :]}"


def places_with_ids() -> list[tuple[str, tuple[str, ...]]]:
    return [(tool, path) for tool, path in PLACES if path[-1] in NAMES]


@pytest.mark.parametrize("tool", MUTATING)
async def test_call_repeated_with_ids_in_lowercase_gets_stored_reply(
    agent: AgentClient, tool: str
) -> None:
    args = {**await valid_call(agent, tool), "idempotencyKey": "once"}
    spelled = {
        name: text.upper() if name in NAMES - {"stepIds"} else text for name, text in args.items()
    }
    first = await agent.call(tool, **spelled)
    again = await agent.elsewhere().call(tool, **args)
    assert again == {**first, "replayed": True}


async def test_id_from_another_process_is_accepted_in_every_argument(agent: AgentClient) -> None:
    for tool, path in places_with_ids():
        args = await valid_call(agent, tool, using=path[0])
        answer = await agent.elsewhere().ask(tool, args)
        assert not answer.is_error, (tool, path, answer.body)


async def test_id_in_upper_case_with_blanks_is_accepted(agent: AgentClient) -> None:
    plan = await agent.plan()
    status = await agent.call("get_plan_status", planId=f" {plan['planId'].upper()} ")
    assert status["planId"] == plan["planId"]


async def test_mistyped_id_is_not_found_and_changes_nothing(world: OrgEnv) -> None:
    agent = world.agent
    calls = [call for call in await foreign_id_calls(agent) if call.path[-1] in NAMES]
    plan = await agent.plan()
    before = await world.stored(agent.org_id, plan["planId"])
    for call in calls:
        for text in mistyped(plan["planId"]):
            for args in call.with_id(text):
                error = await agent.refused(call.tool, **args)
                assert (error["code"], error["next"]["tool"] in TOOLS) == ("NOT_FOUND", True)
                assert error["details"]["argument"].rpartition(".")[2] == call.path[-1]
                assert error["message"].startswith(error["details"]["argument"])
    assert await world.stored(agent.org_id, plan["planId"]) == before


async def test_step_id_used_as_plan_id_is_not_found(agent: AgentClient) -> None:
    plan = await agent.plan()
    step_id = plan["stepIds"][0]
    for client in (agent, agent.elsewhere()):
        error = await client.refused("get_next_step", planId=step_id)
        assert (error["code"], error["details"]) == ("NOT_FOUND", {"argument": "planId"})
        assert f"{step_id!r} is the id of a step, not of a plan" in error["message"]


async def test_values_that_look_like_ids_in_agent_json_stay_unchanged(agent: AgentClient) -> None:
    """A field that an agent names `planId` may contain an id of another system."""
    own = {"planId": new_id(), "items": [{"jobId": new_id(), "reviewUrl": f"/runs/{new_id()}"}]}
    schema = {"type": "object", "properties": {"planId": {"type": "string"}}, "stepId": new_id()}
    plan = await agent.plan([make_step(resultSchema=schema), make_step()])
    taken = await agent.take(plan)
    assert taken["resultSchema"] == schema
    await agent.submit(taken, own)
    status = await agent.call("get_plan_status", planId=plan["planId"], detail=True)
    assert status["completedSteps"][0]["resultSummary"] == own
    second = await agent.take(plan)
    context = await agent.call("get_step_context", stepId=second["stepId"])
    assert context["earlierResults"][0]["resultSummary"] == own
    named = {"kind": "finding", "title": "x", "content": own, "metadata": own}
    stored = await agent.call("store_research", planId=plan["planId"], **named)
    artifact = await agent.call("get_artifact", artifactId=stored["artifactId"], detail=True)
    assert artifact["metadata"] == own
    assert str(own["planId"]) in json.dumps(artifact["content"])
    extracted = await agent.call("extract_data", schema={"type": "object"}, candidate=own)
    assert extracted["data"] == own


async def test_step_removal_repeated_in_another_process_gets_stored_reply(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    removal = {"action": "remove_step", "stepId": plan["stepIds"][2]}
    args = {"planId": plan["planId"], "modifications": [removal]}
    first = await agent.call("modify_plan", **args, idempotencyKey="k")
    again = await agent.elsewhere().call("modify_plan", **args, idempotencyKey="k")
    assert again == {**first, "replayed": True}
    error = await agent.elsewhere().refused("modify_plan", **args, idempotencyKey="l")
    assert error["code"] == "INVALID_STEP_REFERENCE"


@pytest.mark.parametrize("is_added", [False, True], ids=["new plan", "added step"])
async def test_new_plan_or_step_never_gets_an_existing_id(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch, *, is_added: bool
) -> None:
    plan = await agent.plan(1)
    fresh = iter([plan["stepIds"][0] if is_added else plan["planId"]])
    monkeypatch.setattr(locking, "new_id", lambda: next(fresh, None) or new_id())
    if is_added:
        change = {"action": "add_steps", "steps": [make_step()]}
        reply = await agent.call("modify_plan", planId=plan["planId"], modifications=[change])
        made = [step["stepId"] for step in reply["steps"]]
        assert made[0] == plan["stepIds"][0]
    else:
        made = [plan["planId"], (await agent.plan(1, name="Lakes"))["planId"]]
    assert len(set(made)) == 2
    assert next(fresh, None) is None, "the existing id was tried first"
