"""Short ids in calls and replies: every tool takes them, and replies have no other ids."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import psycopg
import pytest

from foreign_ids import PLACES, foreign_id_calls
from full_ids import TABLES, full_id, with_full_ids
from org_env import AgentClient, OrgEnv, make_step
from read_all_tools import read_all
from tool_calls import MUTATING, PREPARE, valid_call
from waybook.app.context.parts import PARTS_BY_ID, STEP_PARTS
from waybook.app.registry import TOOLS
from waybook.app.request.argument_ids import PART_KINDS, dump_with_short_ids, map_ids, shorten_ids
from waybook.app.request.arguments import parse_arguments
from waybook.app.request.locks import locking
from waybook.core.short_ids import ALPHABET, short_id, short_key, usual_form
from waybook.errors import InvalidInput
from waybook.store.calls import hash_arguments
from waybook.store.driver.queries import new_id

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Names of arguments that take short ids.
NAMES = frozenset({"planId", "stepId", "stepIds", "runId", "jobId", "reviewId"})


async def stored_ids(world: OrgEnv) -> set[str]:
    """Return the full ids of all objects of our org that have short ids."""
    queries = [f"select id::text from {table}" for table in TABLES.values()]  # noqa: S608 - names from above
    results = await world.database.read_org(world.agent.org_id, *queries)
    return {row[0] for rows in results for row in rows}


def mistyped(short: str) -> Iterator[str]:
    """Yield texts that differ from a short id in one character."""
    for place in (0, 4, 9):
        other = ALPHABET[(ALPHABET.index(short[place]) + 1) % len(ALPHABET)]
        yield f"{short[:place]}{other}{short[place + 1 :]}"


def places_with_short_ids() -> list[tuple[str, tuple[str, ...]]]:
    return [(tool, path) for tool, path in PLACES if path[-1] in NAMES]


@pytest.mark.parametrize("tool", PREPARE)
async def test_reply_of_any_tool_contains_no_full_id(world: OrgEnv, tool: str) -> None:
    reply = await world.agent.call(tool, **await valid_call(world.agent, tool))
    assert {*UUID.findall(reply_text(reply))} & await stored_ids(world) == set()


def reply_text(reply: Mapping[str, object]) -> str:
    """Return a reply as JSON, without its drawing, which names its elements by full ids."""
    return json.dumps({name: value for name, value in reply.items() if name != "svg"})


async def test_replies_and_errors_contain_no_full_id(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan([make_step(), make_step(dependsOn=[1]), make_step(dependsOn=[1])])
    await agent.submit(await agent.take(plan))
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Look.")
    run, canceled = await agent.run(), await agent.run()
    await agent.call("cancel_run", runId=canceled["runId"], reason="enough")
    answers = await read_all(agent, [plan], run, canceled)
    text = " ".join(reply_text(answer.body) for answer in answers)
    assert {*UUID.findall(text)} & await stored_ids(world) == set()
    assert text.count(plan["planId"]) > 20


@pytest.mark.parametrize("tool", MUTATING)
async def test_repeated_call_with_full_ids_gets_the_stored_answer(
    agent: AgentClient, tool: str
) -> None:
    args = {**await valid_call(agent, tool), "idempotencyKey": "once"}
    first = await agent.call(tool, **args)
    again = await agent.call(tool, **with_full_ids(args))
    assert again == {**first, "replayed": True}


@pytest.mark.parametrize("tool", MUTATING)
async def test_repeated_call_with_short_ids_gets_the_stored_answer(
    agent: AgentClient, tool: str
) -> None:
    args = {**await valid_call(agent, tool), "idempotencyKey": "once"}
    first = await agent.call(tool, **with_full_ids(args))
    again = await agent.elsewhere().call(tool, **args)
    assert again == {**first, "replayed": True}


@pytest.mark.parametrize("tool", MUTATING)
async def test_reply_differs_from_pydantic_json_only_in_short_ids(
    agent: AgentClient, tool: str
) -> None:
    call = await valid_call(agent, tool)
    for left_out in ("", *call):
        with suppress(InvalidInput):  # The argument is required.
            arguments = {name: value for name, value in call.items() if name != left_out}
            args = parse_arguments(TOOLS[tool].arguments, arguments)
            short = map_ids(args, lambda _, __, text: usual_form(text))
            dumped = dump_with_short_ids(args, exclude={"idempotency_key"})
            expected = short.model_dump(mode="json", exclude={"idempotency_key"})
            assert hash_arguments(dumped) == hash_arguments(expected), left_out


async def test_short_id_from_another_process_is_accepted_in_every_argument(
    agent: AgentClient,
) -> None:
    for tool, path in places_with_short_ids():
        args = await valid_call(agent, tool, using=path[0])
        answer = await agent.elsewhere().ask(tool, args)
        assert not answer.is_error, (tool, path, answer.body)


async def test_short_id_in_upper_case_with_blanks_is_accepted(agent: AgentClient) -> None:
    plan = await agent.plan()
    status = await agent.call("get_plan_status", planId=f" {plan['planId'].upper()} ")
    assert status["planId"] == plan["planId"]


async def test_mistyped_short_id_is_not_found_and_changes_nothing(world: OrgEnv) -> None:
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


async def test_step_short_id_used_as_plan_id_is_not_found(agent: AgentClient) -> None:
    plan = await agent.plan()
    step_id = plan["stepIds"][0]
    for client in (agent, agent.elsewhere()):
        error = await client.refused("get_next_step", planId=step_id)
        assert (error["code"], error["details"]) == ("NOT_FOUND", {"argument": "planId"})
        assert f"{step_id!r} is the id of a step, not of a plan" in error["message"]


async def test_ids_in_json_written_by_agents_are_returned_unchanged(agent: AgentClient) -> None:
    """Ids of other systems may be in fields with the same names as Waybook's id fields."""
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


async def test_step_removal_repeated_in_other_process_gets_stored_answer(
    agent: AgentClient,
) -> None:
    """A removed step cannot be looked up, but a repeated call must get its stored answer."""
    plan = await agent.plan()
    removal = {"action": "remove_step", "stepId": plan["stepIds"][2]}
    args = {"planId": plan["planId"], "modifications": [removal]}
    first = await agent.call("modify_plan", **args, idempotencyKey="k")
    again = await agent.elsewhere().call("modify_plan", **args, idempotencyKey="k")
    assert again == {**first, "replayed": True}
    error = await agent.elsewhere().refused("modify_plan", **args, idempotencyKey="l")
    assert (error["code"], error["details"]["argument"]) == (
        "NOT_FOUND",
        "modifications.0.remove_step.stepId",
    )


async def test_reordered_steps_keep_short_ids(agent: AgentClient) -> None:
    plan = await agent.plan()
    order = plan["stepIds"][::-1]
    moved = {"action": "reorder_steps", "stepIds": order}
    reply = await agent.call("modify_plan", planId=plan["planId"], modifications=[moved])
    assert [step["stepId"] for step in reply["steps"]] == order


async def test_new_plan_gets_another_id_if_short_id_is_taken(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ids with equal short keys are hard to find, so the test's index compares only one bit."""
    agent = own_world.agent
    with psycopg.connect(own_world.place.owner_dsn) as owner:
        owner.execute("create unique index plan_bit on plan (org_id, (short_key % 2))")
    plan = await agent.plan(1)
    taken_bit = short_key(full_id(plan["planId"])) % 2
    asked: list[int] = []

    def next_id() -> str:
        # The first attempt to create a plan with one step takes the first two ids, and their short
        # ids are in use.
        bit = taken_bit if len(asked) < 2 else 1 - taken_bit
        asked.append(bit)
        return next(i for i in iter(new_id, "") if short_key(i) % 2 == bit)

    monkeypatch.setattr(locking, "new_id", next_id)
    other = await agent.plan(1, name="Lakes")
    assert asked == [taken_bit, taken_bit, 1 - taken_bit, 1 - taken_bit]
    assert short_key(full_id(other["planId"])) % 2 != taken_bit


async def test_call_log_stores_full_step_id(world: OrgEnv) -> None:
    plan = await world.agent.plan()
    taken = await world.agent.take(plan)
    await world.agent.call("get_step_context", stepId=taken["stepId"])
    await world.dispatcher.calls.flush()
    (rows,) = await world.database.read_org(
        world.agent.org_id,
        "select step_id::text from mcp_tool_call_log where step_id is not null",
    )
    assert {row[0] for row in rows} == {full_id(taken["stepId"])}


def test_context_parts_accept_short_ids_except_of_artifacts() -> None:
    assert PART_KINDS.keys() == {*STEP_PARTS, *PARTS_BY_ID} - {"artifact"}


def test_reply_that_contains_no_ids_is_not_copied() -> None:
    body = {"plans": [{"name": "x"}], "total": 1, "next": {"tool": "t", "args": {}}}
    assert shorten_ids(body, lambda _, full: short_id(full)) is body
