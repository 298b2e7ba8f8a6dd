"""Another org's id answers, to the letter, like one that never was."""

import json
import re
from collections.abc import Iterator

import pytest

from tool_calls import a_call_of, a_gathering, a_late_result, ids_within
from waybook.background import render_once
from waybook.doorway import TOOLS
from waybook.store.ids import new_id
from worlds import Agent, Body, World

PLACES = [(tool, path) for tool in TOOLS for path in ids_within(TOOLS[tool].arguments)]


@pytest.fixture
async def theirs(world: World) -> dict[str, str]:
    """What the neighbour has: ids of every kind."""
    world.neighbour_may_change = True
    ned = world.neighbour
    reviewed = await ned.take(world.neighbours_plan)
    review = await ned.call("request_user_review", stepId=reviewed["stepId"], summary="Look.")
    execution = await ned.call("start_skill", name="survey", sessionId="theirs")
    research = await ned.call("store_research", **await a_call_of(ned, "store_research"))
    other = await ned.take(await ned.plan(2, name="Their other"))
    return {
        "plan": world.neighbours_plan["planId"],
        "step under review": reviewed["stepId"],
        "review": review["reviewId"],
        "skill execution": execution["skillExecutionId"],
        "running step": other["stepId"],
        "artifact": research["artifactId"],
        "source": research["sourceIds"][0],
        "plan at work": other["planId"],
        "late result": await a_late_result(ned),
        **await their_run(ned),
    }


async def their_run(ned: Agent) -> dict[str, str]:
    """A run of the neighbour's in its second stage, a job of it at work, a document rendered."""
    job = await a_gathering(ned)
    await render_once(ned.doorway.house)
    scope = (await ned.progress(job))["stages"][0]
    return {
        "run": job["runId"],
        "running job": job["jobId"],
        "document": next(one["documentId"] for one in job["inputs"] if "documentId" in one),
        "rendered document": scope["documents"][0]["resourceId"],
    }


def with_id(arguments: Body, path: tuple[str, ...], row_id: str) -> Iterator[Body]:
    """The arguments with this id at that place; in a list, in each place of it in turn."""
    name, *rest = path
    if not rest:
        yield {**arguments, name: [row_id] if name.endswith("Ids") else row_id}
        return
    for place, inner in enumerate(arguments[name]):
        if rest[0] in inner:
            for changed in with_id(inner, tuple(rest), row_id):
                items = list(arguments[name])
                items[place] = changed
                yield {**arguments, name: items}


MODIFICATIONS: list[Body] = [
    {"action": "remove_step", "stepId": ""},
    {"action": "update_step_instructions", "stepId": "", "instructions": "x"},
    {"action": "fail_step", "stepId": "", "reason": "x"},
    {"action": "retry_step", "stepId": ""},
    {"action": "reorder_steps", "stepIds": [""]},
]


async def calls(agent: Agent, tool: str, path: tuple[str, ...], row_id: str) -> list[Body]:
    """Every call of this tool that has the id at this place and is in order otherwise."""
    arguments = await a_call_of(agent, tool, using=path[0])
    if tool != "modify_plan" or len(path) == 1:
        return list(with_id(arguments, path, row_id))
    told = [{**arguments, "modifications": [m]} for m in MODIFICATIONS if path[-1] in m]
    return [changed for one in told for changed in with_id(one, path, row_id)]


async def answers(agent: Agent, asked: list[Body], tool: str, row_id: str) -> list[str]:
    """The answers, to the letter but for the ids the caller knows anyway."""
    found = []
    for arguments in asked:
        answer = await agent.ask(tool, arguments)
        text = json.dumps([answer.is_error, answer.body]).replace(row_id, "ID")
        for name in ("planId", "stepId", "runId", "jobId", "documentId"):
            text = text.replace(str(arguments.get(name)), name)
        found.append(text)
    return found


def test_every_tool_with_an_id_is_looked_at() -> None:
    with_ids = {tool for tool, _ in PLACES}
    assert with_ids == set(TOOLS) - {
        "create_research_plan",
        "list_active_plans",
        "list_skills",
        "start_skill",
        "ping",
        "list_dags",
        "start_run",
        "add_dag",
    }


@pytest.mark.parametrize(("tool", "path"), PLACES, ids=str)
async def test_a_foreign_id_answers_like_one_that_never_was(
    agent: Agent, theirs: dict[str, str], tool: str, path: tuple[str, ...]
) -> None:
    for kind, foreign in theirs.items():
        never = new_id()
        ours = await calls(agent, tool, path, never)
        assert ours
        expected = await answers(agent, ours, tool, never)
        mine = await calls(agent, tool, path, foreign)
        found = await answers(agent, mine, tool, foreign)
        assert _without_our_ids(found) == _without_our_ids(expected), kind


def _without_our_ids(answered: list[str]) -> list[str]:
    """Each call was made on a plan of its own; whose ids they are is the same."""
    return [_IDS.sub("ours", text) for text in answered]


_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.mark.parametrize(("tool", "path"), PLACES, ids=str)
async def test_a_text_that_is_no_id_answers_like_one_that_never_was(
    agent: Agent, tool: str, path: tuple[str, ...]
) -> None:
    never = new_id()
    asked = await calls(agent, tool, path, never)
    expected = _without_our_ids(await answers(agent, asked, tool, never))
    for text in ("nope", "'; drop table plan; --", "☃", "%s", "{nope}"):
        told = json.dumps(text)[1:-1]
        found = await answers(agent, await calls(agent, tool, path, text), tool, told)
        assert _without_our_ids(found) == expected


async def test_an_id_is_the_same_in_capital_letters(agent: Agent) -> None:
    plan = await agent.plan()
    shouted = await agent.call("get_next_step", planId=plan["planId"].upper())
    assert shouted["stepId"] == plan["stepIds"][0]
    assert await agent.call("get_step_context", stepId=shouted["stepId"].upper())
    await agent.call("submit_step_result", stepId=shouted["stepId"].upper(), resultSummary="x")
    added = {"action": "reorder_steps", "stepIds": [i.upper() for i in reversed(plan["stepIds"])]}
    await agent.call("modify_plan", planId=plan["planId"].upper(), modifications=[added])


async def test_the_neighbour_is_in_no_list(agent: Agent, theirs: dict[str, str]) -> None:
    lists = ("list_active_plans", "list_skills", "list_dags")
    told = json.dumps([await agent.call(tool) for tool in lists])
    assert not [kind for kind, row_id in theirs.items() if row_id in told]
    assert (await agent.call("list_active_plans"))["total"] == 0
