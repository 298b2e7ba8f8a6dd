"""No stored data can make a reply larger than the maximum size of replies."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import orjson
import pytest

from org_env import AgentClient, Body
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.registry import TOOLS
from waybook.app.request import answers
from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.core.decision_context import Channel

#: Character that becomes six bytes in JSON.
WIDE = "\x01"
STEPS = 200
RESULT = WIDE * 40_000


async def make_full_plan(agent: AgentClient) -> Body:
    """Create a plan with as many steps, dependencies, results and questions as the limits allow."""
    steps: list[Body] = [
        {
            "stepType": "search",
            "title": "é" * 200,
            "instructions": WIDE * 3_000,
            # The first twelve steps can be claimed, because they have no dependencies.
            "dependsOn": [*range(1, order)] if order > 12 else [],
        }
        for order in range(1, STEPS + 1)
    ]
    for step in steps:
        if len(orjson.dumps(steps)) > 900_000:
            step["instructions"] = "x"
    plan = await agent.plan(steps)
    for _ in range(8):
        await agent.submit(await agent.take(plan), RESULT)
    taken = await agent.take(plan)
    await agent.call(
        "request_user_review",
        stepId=taken["stepId"],
        summary=WIDE * 7_000,
        questions=[WIDE * 500] * 40,
        resultSummary=RESULT,
    )
    return {**plan, "stepId": taken["stepId"]}


async def make_full_dag(agent: AgentClient) -> str:
    """Store a workflow whose map and drawing are too large for one reply; return its slug."""
    stages = []
    for stage in range(3):
        keys = [f"step_{stage}_{number:03}_{'n' * 80}" for number in range(450)]
        edges = [*pairwise(keys), *zip(keys, keys[7:], strict=False)]
        steps = [
            make_recipe_step(key, "all_to_one", outputs=[{"documentKey": key}]) for key in keys
        ]
        stages.append(make_stage(f"stage-{stage}", *steps, edges=edges))
    transitions = [{"from": f"stage-{n}", "to": f"stage-{n + 1}"} for n in range(2)]
    definition = make_definition("full", *stages, transitions=transitions)
    await agent.call("add_dag", definition=definition)
    return "full"


async def make_full_artifact(agent: AgentClient) -> Body:
    sources = [{"title": f"{n}", "quote": WIDE * 900} for n in range(50)]
    content = WIDE * 80_000
    return await agent.call(
        "store_research", kind="note", title="Full", content=content, sources=sources
    )


async def calls_of(agent: AgentClient) -> AsyncIterator[tuple[str, Body]]:
    """Yield a call of every tool that reads data, for the largest possible reply."""
    plan, dag, stored = (
        await make_full_plan(agent),
        await make_full_dag(agent),
        await make_full_artifact(agent),
    )
    run = await agent.call("start_run", dagSlug=dag, name="Full", models=["m"], input={"a": RESULT})
    job = await agent.call("get_next_job", runId=run["runId"])
    of_plan, of_run = {"planId": plan["planId"]}, {"runId": run["runId"]}
    yield "get_plan_status", of_plan
    yield "get_research_context", of_plan
    yield "get_step_context", {"stepId": plan["stepId"]}
    yield "get_run_progress", of_plan
    yield "get_run_progress", of_run
    yield "get_dag_map", of_plan
    yield "get_dag_map", of_run
    yield "get_dag_map", {"dagSlug": dag}
    yield "draw_map", of_plan
    yield "draw_map", of_run
    yield "draw_map", {"dagSlug": dag}
    yield "get_artifact", {"artifactId": stored["artifactId"]}
    yield "get_artifact", {"artifactId": stored["sourceIds"][0]}
    yield "get_job_input", {"jobId": job["jobId"]}
    yield "search_sources", {"query": "Full", "limit": 50}
    yield "list_active_plans", {"limit": 100}
    for name, tool in TOOLS.items():
        needed = any(field.is_required() for field in tool.arguments.model_fields.values())
        if tool.reads_only and not needed:
            yield name, {}


#: Tools that only read, and whose replies contain no stored data.
WITHOUT_STORED = {"extract_data"}


async def test_every_read_tool_stays_within_reply_size_limit(agent: AgentClient) -> None:
    seen = set[str]()
    async for tool, arguments in calls_of(agent):
        seen.add(tool)
        fields = TOOLS[tool].arguments.model_fields
        for detail in (False, True) if "detail" in fields else (None,):
            args = {**arguments, **({} if detail is None else {"detail": detail})}
            reply = await agent.call(tool, **args)
            assert len(orjson.dumps(reply)) <= MAX_REPLY_BYTES, (tool, args)
            if len(orjson.dumps(reply)) > MAX_REPLY_BYTES // 2:
                assert "cut" in orjson.dumps(reply).decode() or reply.get("left"), tool
    reading = {name for name, tool in TOOLS.items() if tool.reads_only}
    assert reading - seen <= WITHOUT_STORED


async def test_get_artifact_with_detail_and_offset_returns_complete_text(
    agent: AgentClient,
) -> None:
    stored = await make_full_artifact(agent)
    args: Body = {"artifactId": stored["artifactId"], "detail": True}
    text = ""
    while True:
        piece = await agent.call("get_artifact", **args, offset=len(text))
        text += piece["content"]
        if not piece["left"]:
            break
    assert text == WIDE * 80_000


@pytest.fixture
def low_ceiling(agent: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.caller.user, "the agent is created before the limit is lowered"
    monkeypatch.setattr(answers, "MAX_REPLY_BYTES", 100)


@pytest.mark.usefixtures("low_ceiling")
async def test_error_for_reply_over_size_limit_suggests_a_narrower_call(agent: AgentClient) -> None:
    error = await agent.refused("get_dag_map", dagSlug="dialectic", detail=True)
    assert (error["code"], error["details"]["limit"]) == ("TOO_LARGE", 100)
    assert error["next"]["tool"] == "get_dag_map"
    assert "without detail" in error["next"]["why"]


@pytest.mark.usefixtures("low_ceiling")
async def test_error_for_large_reply_says_that_the_write_succeeded(agent: AgentClient) -> None:
    steps = [{"stepType": "search", "instructions": "Look."}]
    args: Body = {"name": "Rivers", "researchQuestion": "Which?", "steps": steps}
    error = await agent.refused("create_research_plan", **args)
    assert "The call was carried out; do not repeat it." in error["message"]


@pytest.mark.usefixtures("low_ceiling")
async def test_reply_on_command_line_has_no_size_limit(agent: AgentClient) -> None:
    here = replace(agent, caller=replace(agent.caller, channel=Channel.CLI))
    assert (await here.call("get_dag_map", dagSlug="dialectic", detail=True))["stages"]
