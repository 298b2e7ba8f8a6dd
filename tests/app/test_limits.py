"""Limits of tool arguments: a value at the limit is accepted, a larger one is refused."""

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import psycopg
import pytest

from app.test_bad_input import digest
from org_env import AgentClient, Body, OrgEnv, branch_condition, make_step
from statements import lock_rows
from waybook.app.request.arguments import MAX_RESULT
from waybook.app.tools.research.stored_research import MAX_SOURCES, MAX_TAGS
from waybook.conditions.condition import MAX_SOURCE_LENGTH
from waybook.core.json_check import MAX_BODY, MAX_DEPTH, check_json
from waybook.plan.model import MAX_CONDITIONS, MAX_REQUIRED_SOURCES, MAX_STEPS
from waybook.run.model import MAX_MODELS
from waybook.store.driver.connection import WireSettings

#: Limits, each with the value that the documentation states.
PROMISED = {MAX_BODY: 2**20, MAX_STEPS: 200, MAX_CONDITIONS: 50, MAX_RESULT: 256 * 1024}


class Limit(NamedTuple):
    """Limit of a tool argument, with a function that returns arguments of a given size."""

    most: int
    code: str
    tool: str
    requested: Callable[[AgentClient, int], Awaitable[Body]]


def make_text(length: int) -> str:
    return "x" * length


def make_plan(**more: object) -> Body:
    named = {"name": "Rivers", "researchQuestion": "Which river is longest?"}
    return {**named, "steps": [make_step()], **more}


def condition(expression: str = "confidence < 0.5") -> Body:
    return branch_condition(1, expression, "continue")


async def steps(_: AgentClient, count: int) -> Body:
    return make_plan(steps=[make_step()] * count)


async def more_steps(agent: AgentClient, count: int) -> Body:
    adding = {"action": "add_steps", "steps": [make_step()] * (count - 3)}
    return {"planId": (await agent.plan(3))["planId"], "modifications": [adding]}


async def modifications(agent: AgentClient, count: int) -> Body:
    plan = await agent.plan(1)
    each = {"action": "update_step_instructions", "stepId": plan["stepIds"][0]}
    changes = [{**each, "instructions": f"Look {n}."} for n in range(count)]
    return {"planId": plan["planId"], "modifications": changes}


async def conditions(_: AgentClient, count: int) -> Body:
    return make_plan(branchingConditions=[condition()] * count)


async def expression(_: AgentClient, length: int) -> Body:
    source = "confidence < 0.5"
    return make_plan(branchingConditions=[condition(source + " " * (length - len(source)))])


async def body(_: AgentClient, size: int) -> Body:
    """Return plan arguments with this many bytes of JSON."""
    args = make_plan(steps=[*(make_step(make_text(17_000)) for _ in range(61)), make_step()])
    last = args["steps"][-1]
    last["instructions"] += make_text(size - check_json(args))
    return args


async def instructions(_: AgentClient, length: int) -> Body:
    return make_plan(steps=[make_step(make_text(length))])


async def make_name(_: AgentClient, length: int) -> Body:
    return make_plan(name=make_text(length))


async def required(_: AgentClient, count: int) -> Body:
    return make_plan(steps=[make_step(requiredSources=count)])


async def result(agent: AgentClient, size: int) -> Body:
    """Return arguments with a step result of this many bytes of JSON."""
    step = await agent.take(await agent.plan())
    return {"stepId": step["stepId"], "resultSummary": make_text(size)}


async def report(agent: AgentClient, size: int) -> Body:
    step = await agent.take(await agent.plan())
    args = {"stepId": step["stepId"], "resultSummary": "found"}
    return {**args, "stepExecutionReport": make_text(size)}


async def depth(agent: AgentClient, levels: int) -> Body:
    step = await agent.take(await agent.plan())
    value: object = "x"
    # The object that contains the arguments is one nesting level itself.
    for _ in range(levels - 1):
        value = [value]
    return {"stepId": step["stepId"], "resultSummary": value}


async def reviewed(agent: AgentClient, size: int) -> Body:
    step = await agent.take(await agent.plan())
    args = {"stepId": step["stepId"], "summary": "Is it right?"}
    return {**args, "resultSummary": make_text(size)}


async def questions(agent: AgentClient, count: int) -> Body:
    step = await agent.take(await agent.plan())
    return {"stepId": step["stepId"], "summary": "Is it right?", "questions": ["Is it?"] * count}


def research(**more: object) -> Body:
    return {"kind": "note", "title": "Rivers", "content": "Long ones.", **more}


async def content(_: AgentClient, size: int) -> Body:
    return research(content=make_text(size))


async def sources(_: AgentClient, count: int) -> Body:
    return research(sources=[{"title": f"Source {n}"} for n in range(count)])


async def tags(_: AgentClient, count: int) -> Body:
    return research(tags=[f"tag {n}" for n in range(count)])


async def models(_: AgentClient, count: int) -> Body:
    named = {"dagSlug": "deep-research", "name": "Rivers", "input": "Which?"}
    return {**named, "models": [f"m{n}" for n in range(count)]}


async def run_input(_: AgentClient, size: int) -> Body:
    named = {"dagSlug": "deep-research", "name": "Rivers", "models": ["m"]}
    return {**named, "input": make_text(size)}


async def document(agent: AgentClient, size: int) -> Body:
    job = await agent.job(await agent.run(models="a"))
    return {
        "jobId": job["jobId"],
        "attempt": job["attempt"],
        "documents": [{"content": make_text(size)}],
    }


CREATE, SUBMIT, STORE = "create_research_plan", "submit_step_result", "store_research"
LIMITS: dict[str, Limit] = {
    "steps of a plan": Limit(MAX_STEPS, "TOO_LARGE", CREATE, steps),
    "steps of a plan that grows": Limit(MAX_STEPS, "TOO_LARGE", "modify_plan", more_steps),
    "modifications at once": Limit(50, "TOO_LARGE", "modify_plan", modifications),
    "conditions of a plan": Limit(MAX_CONDITIONS, "TOO_LARGE", CREATE, conditions),
    "letters of a condition": Limit(MAX_SOURCE_LENGTH, "BAD_EXPRESSION", CREATE, expression),
    "bytes of all arguments": Limit(MAX_BODY, "TOO_LARGE", CREATE, body),
    "levels of arguments": Limit(MAX_DEPTH, "INVALID_INPUT", SUBMIT, depth),
    "letters of instructions": Limit(20_000, "TOO_LARGE", CREATE, instructions),
    "letters of a name": Limit(200, "TOO_LARGE", CREATE, make_name),
    "sources a step may want": Limit(MAX_REQUIRED_SOURCES, "INVALID_INPUT", CREATE, required),
    "bytes of a result": Limit(MAX_RESULT, "TOO_LARGE", SUBMIT, result),
    "bytes of a report": Limit(MAX_RESULT, "TOO_LARGE", SUBMIT, report),
    "bytes of a result in review": Limit(MAX_RESULT, "TOO_LARGE", "request_user_review", reviewed),
    "questions of a review": Limit(50, "TOO_LARGE", "request_user_review", questions),
    "bytes of research": Limit(MAX_RESULT, "TOO_LARGE", STORE, content),
    "sources of research": Limit(MAX_SOURCES, "TOO_LARGE", STORE, sources),
    "tags of research": Limit(MAX_TAGS, "TOO_LARGE", STORE, tags),
    "models of a run": Limit(MAX_MODELS, "TOO_LARGE", "start_run", models),
    "bytes of a run's input": Limit(MAX_RESULT, "TOO_LARGE", "start_run", run_input),
    "bytes of a document": Limit(MAX_RESULT, "TOO_LARGE", "submit_job_result", document),
}


@pytest.fixture
def admin(alone: OrgEnv) -> Iterator[psycopg.Connection]:
    with psycopg.connect(alone.place.admin_dsn, autocommit=True) as connection:
        yield connection


def test_size_limits_and_timeouts_have_the_documented_values() -> None:
    assert [limit == promised for limit, promised in PROMISED.items()] == [True] * len(PROMISED)
    assert (WireSettings().lock_timeout, WireSettings().statement_timeout) == ("5s", "6s")


@pytest.mark.parametrize("name", LIMITS)
async def test_argument_is_accepted_at_the_limit_and_refused_above(
    alone: OrgEnv, admin: psycopg.Connection, name: str
) -> None:
    limit, agent = LIMITS[name], alone.agent
    await agent.call(limit.tool, **await limit.requested(agent, limit.most))
    args = await limit.requested(agent, limit.most + 1)
    before = digest(admin)
    error = await agent.refused(limit.tool, **args)
    assert (error["code"], digest(admin) == before) == (limit.code, True), error
    assert f"{limit.most}" in error["message"].replace(",", "")
    if limit.code == "TOO_LARGE":
        assert error["details"]["limit"] == limit.most


async def test_call_returns_busy_without_writes_after_statement_timeout(
    alone: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = alone.agent
    plan = await agent.plan()
    before = digest(admin)
    async with alone.database.org_transaction(agent.org_id) as tx:
        await tx.send(lock_rows("plan"))
        monkeypatch.setattr(alone.database.wire, "statement_timeout", "50ms")
        monkeypatch.setattr(alone.database.wire, "pooled", True)
        error = await agent.refused("get_next_step", planId=plan["planId"])
    assert (error["code"], error["details"]) == ("BUSY", {"retryAfter": 1})
    assert digest(admin) == before
