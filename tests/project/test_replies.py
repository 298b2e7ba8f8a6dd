"""Reference of the tools, which must describe exactly the fields that replies contain."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from org_env import AgentClient, Body, OrgEnv, make_env, make_step, with_parts
from postgres_servers import ServerDatabase
from project.repository import read, sections
from tool_calls import valid_call
from waybook.app.registry import TOOLS
from waybook.app.request.caller import Answer
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.skills.loader import read_skills
from waybook.app.tools.plans.skills import InstalledSkills
from waybook.core.usage import Usage
from waybook.integrations.llm_messages import ModelReply, ModelRequest

TICKED = re.compile(r"`(\w+)`")


@pytest.fixture
async def a_place_to_act(module_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(module_place) as made:
        yield made


class Listening(AgentClient):
    seen: dict[str, set[str]]

    async def ask(self, tool: str, arguments: dict[str, object]) -> Answer:  # type: ignore[override]  # narrower on purpose
        answer = await super().ask(tool, arguments)
        if not answer.is_error:
            self.seen[tool] |= set(answer.body)
        return answer


def documented() -> dict[str, set[str]]:
    """Return, for each tool, the reply fields that the page describes."""
    page = sections(read("reference", "tools.md"), 2)
    return {name: fields_in(sections(page[name], 3)["Reply"]) for name in TOOLS}


def fields_in(section: str) -> set[str]:
    items = re.findall(r"^- (.+?):", section, re.MULTILINE)
    return {name for item in items for name in TICKED.findall(item)}


async def test_tools_page_documents_exactly_the_fields_that_occur_in_replies(
    a_place_to_act: OrgEnv,
) -> None:
    known = a_place_to_act.agent
    agent = Listening(known.dispatcher, known.caller)
    agent.seen = defaultdict(set)
    # While nothing is stored, no passage is similar to the query.
    await agent.call("search_sources", query="zzyzx")
    for tool in TOOLS:
        await agent.call(tool, **await valid_call(agent, tool))
    await make_plan_that_ends_well(agent)
    await make_plan_with_limits(agent)
    await make_plan_with_blocked_step(agent)
    await make_work_that_pauses_and_settles(agent)
    await make_plan_that_fails(agent)
    await make_plan_that_is_canceled(agent)
    await make_plan_that_repeats(agent)
    await make_plan_that_is_reviewed(agent)
    await make_long_read(agent)
    await make_step_with_a_past(agent)
    await make_step_of_a_silent_holder(a_place_to_act, agent)
    await make_run_that_ends_well(agent)
    await make_run_that_fails(agent)
    await make_run_that_is_canceled(agent)
    await make_copy(agent)
    await looks_at_plans_and_runs(agent)
    await research_that_grows(agent)
    await files_of_a_skill(agent)
    await extracts(agent)
    await maps_in_a_chat(agent)
    documented_fields = documented()
    invented = {tool: documented_fields[tool] - agent.seen[tool] for tool in TOOLS}
    left_out = {tool: agent.seen[tool] - documented_fields[tool] - {"replayed"} for tool in TOOLS}
    assert {tool: fields for tool, fields in invented.items() if fields} == {}
    assert {tool: fields for tool, fields in left_out.items() if fields} == {}


async def make_plan_that_ends_well(agent: AgentClient) -> None:
    """Complete a plan with a skill, a result schema, a condition with an error, and a retry."""
    await agent.call("start_skill", name="survey", sessionId="s")
    missing = {
        "afterStepOrder": 1,
        "conditionExpression": "result.nothing > 1",
        "ifTrueAction": "continue",
    }
    shape = {"type": "object"}
    plan = await agent.plan(
        steps=[make_step(title="First", resultSchema=shape), make_step()],
        branchingConditions=[missing],
        outputFormattingNotes="As a table.",
        sessionId="s",
    )
    taken = await agent.take(plan, sessionId="s")
    await agent.take(plan, sessionId="s")
    await agent.call("get_step_context", stepId=taken["stepId"])
    await agent.submit(taken, {"a": 1}, outputFormattingNotes="In bold.")
    await agent.call("get_step_context", stepId=taken["stepId"])
    second = await agent.take(plan)
    await agent.call("get_next_step", planId=plan["planId"])
    retry: Body = {"action": "retry_step", "stepId": second["stepId"]}
    await agent.call("modify_plan", planId=plan["planId"], modifications=[retry], dryRun=True)
    await agent.submit(second)
    await agent.call("get_next_step", planId=plan["planId"])
    await agent.call("get_research_context", planId=plan["planId"])


async def make_run_that_is_canceled(agent: AgentClient) -> None:
    run = await agent.run()
    await agent.call("cancel_run", runId=run["runId"], reason="The question has changed.")
    await agent.call("get_next_job", runId=run["runId"])
    await agent.progress(run)


async def make_copy(agent: AgentClient) -> None:
    """Copy a plan and a run, and read both copies."""
    plan = await agent.plan()
    await agent.submit(await agent.take(plan))
    copy = await agent.call("copy_plan", planId=plan["planId"])
    await agent.status(copy)
    await agent.call("get_research_context", planId=copy["planId"])
    run = await agent.run()
    await agent.progress(await agent.call("copy_run", runId=run["runId"], fromStage="scope"))


async def research_that_grows(agent: AgentClient) -> None:
    """Store and read versions of research, research with 20 sources, and a late result."""
    args = await valid_call(agent, "store_research")
    stored = [await agent.call("store_research", **args) for _ in range(2)]
    args["sources"] = [{"title": f"Page {n}", "quote": "x" * 2_000} for n in range(20)]
    stored += [
        await agent.call("store_research", **{**args, "content": "y" * 90_000 + word})
        for word in ("a", "b")
    ]
    for artifact in stored:
        await agent.call("get_artifact", artifactId=artifact["artifactId"])
    await agent.call("get_artifact", artifactId=stored[0]["sourceIds"][0])
    await agent.call("search_sources", query="Page", limit=1)
    taken = await agent.take(await agent.plan())
    late = await agent.refused("submit_step_result", stepId=taken["stepId"], attempt=9, **RESULT)
    await agent.call("get_artifact", artifactId=late["details"]["artifactId"])


RESULT: Body = {"resultSummary": "found"}


async def files_of_a_skill(agent: AgentClient) -> None:
    services = with_parts(agent.dispatcher.services, InstalledSkills(read_skills("")))
    listener = Listening(ServerDispatcher(services, agent.dispatcher.calls), agent.caller)
    listener.seen = agent.seen if isinstance(agent, Listening) else {}
    named = {"name": "deep-research"}
    await listener.call("start_skill", **named, sessionId="files")
    await listener.call("list_skills", **named, file="references/judging-sources.md")


async def make_plan_with_limits(agent: AgentClient) -> None:
    """Work on a plan with a budget and a step that requires sources."""
    plan = await agent.plan([make_step(requiredSources=1), make_step()], budget={"tokens": 10})
    taken = await agent.take(plan)
    await agent.call("get_step_context", stepId=taken["stepId"])
    await agent.submit(await agent.take(plan), usage={"inputTokens": 9})
    await agent.status(plan)


async def make_plan_with_blocked_step(agent: AgentClient) -> None:
    plan = await agent.plan([make_step(touches=["src"]), make_step(touches=["src/a.py"])])
    await agent.take(plan)
    await agent.call("get_next_step", planId=plan["planId"], another=True)


async def make_work_that_pauses_and_settles(agent: AgentClient) -> None:
    """Reach the cap of a day, settle a reservation twice, and give a job back."""
    cap = {"scope": "plan", "period": "day", "unit": "steps", "limit": 1}
    named = {"planId": (await agent.plan())["planId"], "agent": "codex"}
    reserved = await agent.call("reserve_work", **named, caps=[cap])
    held = {"reservationId": reserved["reservationId"], "outcome": "completed"}
    for _ in range(2):
        await agent.call("settle_work", **held)
    await agent.call("reserve_work", **named)
    job = await agent.job(await agent.run())
    await agent.call("give_back", jobId=job["jobId"], reason="usage limit")


async def make_plan_that_fails(agent: AgentClient) -> None:
    end = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "fail"}
    plan = await agent.plan(branchingConditions=[end])
    await agent.submit(await agent.take(plan))
    await agent.call("get_next_step", planId=plan["planId"])
    await agent.call("get_research_context", planId=plan["planId"])


async def make_plan_that_is_canceled(agent: AgentClient) -> None:
    named = {"planId": (await agent.plan())["planId"]}
    await agent.call("modify_plan", **named, modifications=[{"cancel_plan": "not needed"}])
    for tool in ("get_next_step", "get_research_context", "get_run_progress"):
        await agent.call(tool, **named)


async def make_plan_that_repeats(agent: AgentClient) -> None:
    params = {"max": 1, "onExhausted": "continue"}
    again = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "repeat"}
    loop = {**again, "actionParams": params}
    plan = await agent.plan(sequential=True, branchingConditions=[loop])
    await agent.submit(await agent.take(plan))
    await agent.take(plan)
    await agent.call("get_plan_status", planId=plan["planId"])


async def make_plan_that_is_reviewed(agent: AgentClient) -> None:
    errs = {"afterStepOrder": 1, "conditionExpression": "result.x > 1", "ifTrueAction": "continue"}
    end = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "fail"}
    plan = await agent.plan(branchingConditions=[errs, end])
    taken = await agent.take(plan)
    await agent.review(taken, summary="Well?")
    await agent.call("get_next_step", planId=plan["planId"])
    await agent.call("get_research_context", planId=plan["planId"])
    await agent.decide(plan)


async def make_long_read(agent: AgentClient) -> None:
    """Read the context of a failed step whose instructions do not fit into the token budget."""
    plan = await agent.plan(steps=[make_step("Read on. " * 1_000), make_step()])
    step_id = plan["stepIds"][0]
    await agent.modify(plan, "fail_step", stepId=step_id, reason="Too long.")
    cut = await agent.call("get_step_context", stepId=step_id, budgetTokens=500)
    await agent.call("get_step_context", **cut["cut"]["instructions"]["get"]["args"])
    question = {"planId": plan["planId"], "part": "researchQuestion"}
    await agent.call("get_research_context", **question)
    await agent.call("get_research_context", planId=plan["planId"], budgetTokens=500)
    await agent.take(plan)
    await agent.call("get_next_step", planId=plan["planId"])


async def make_step_with_a_past(agent: AgentClient) -> None:
    """Work on a step with a dependency, a failure, a late result, and a review with feedback."""
    plan = await agent.plan(steps=[make_step(), make_step(dependsOn=[1])])
    await agent.submit(await agent.take(plan))
    taken = await agent.take(plan)
    step_id = taken["stepId"]
    await agent.modify(plan, "fail_step", stepId=step_id, reason="Too long.", retry=True)
    await agent.refused("submit_step_result", stepId=step_id, attempt=1, resultSummary="Late.")
    await agent.take(plan)
    await agent.call("request_user_review", stepId=step_id, summary="Well?")
    args = {"decision": "modify", "feedback": "Again."}
    await agent.decide(plan, **args)
    await agent.call("comment", subjectId=step_id, text="Why twice?")
    await agent.call("get_step_context", stepId=step_id)


async def make_step_of_a_silent_holder(world: OrgEnv, agent: AgentClient) -> None:
    """Claim a step whose last holder stored an artifact and then became inactive."""
    plan = await agent.plan(1)
    taken = await agent.take(plan, sessionId="silent")
    named = {"planId": plan["planId"], "stepId": taken["stepId"], "kind": "note"}
    await agent.call("store_research", **named, title="Notes", content="Half done.")
    world.clock.advance(minutes=31)
    await agent.status(plan)
    await agent.call("get_run_progress", planId=plan["planId"])
    await agent.take(plan, sessionId="next")


# Calls that work on runs.


async def make_run_that_ends_well(agent: AgentClient) -> None:
    """Complete a run with a partial result, feedback and a regenerated document."""
    run = await agent.run()
    job = await agent.job(run, sessionId="s")
    await agent.job(run, sessionId="s")
    await agent.call("get_next_job", runId=run["runId"])
    await agent.submit_documents(job, "One", continues=True)
    done = await agent.submit_documents(await agent.job(run), "Two")
    await agent.call("get_next_job", runId=run["runId"])
    await agent.call("regenerate_document", documentId=done["documentIds"][0])
    await agent.submit_documents(await agent.job(run), "Three")
    await agent.progress(run)
    await agent.feedback(run, "scope")
    gathering = await agent.job(run)
    args = {"jobId": gathering["jobId"], "documentKey": "feedback", "stageSlug": "scope"}
    await agent.call("get_job_input", **args)
    await agent.call("comment", subjectId=gathering["jobId"], text="Be brief.")
    await agent.call("get_job_input", jobId=gathering["jobId"])
    await agent.call("get_job_input", jobId=gathering["jobId"], documentKey="$documents")
    await agent.submit_documents(gathering)
    await agent.work_off(run)
    await agent.feedback(run, "gather")
    await agent.work_off(run)
    await agent.progress(run)


async def make_run_that_fails(agent: AgentClient) -> None:
    run = await agent.run()
    job = await agent.job(run)
    await agent.fail_job(job, "No.")
    await agent.call("get_next_job", runId=run["runId"])


class Forgetful:
    def __init__(self, text: str) -> None:
        self.text = text

    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        assert question.text
        assert seconds > 0
        return ModelReply(text=self.text, usage=Usage(input_tokens=1, output_tokens=1, model="m"))


async def extracts(agent: Listening) -> None:
    """Extract data without a model, with a correct answer of a model, and with a wrong answer."""
    args: Body = {"text": "The Nile.", "schema": {"type": "object"}}
    await agent.call("extract_data", **args)
    for text in ("{}", "[]"):
        services = replace(agent.dispatcher.services, model=Forgetful(text))
        asking = Listening(ServerDispatcher(services, agent.dispatcher.calls), agent.caller)
        asking.seen = agent.seen
        await asking.call("extract_data", **args)


async def looks_at_plans_and_runs(agent: AgentClient) -> None:
    named: Body
    for named in (await agent.run(), await agent.plan()):
        which = {name: named[name] for name in ("runId", "planId") if name in named}
        await agent.call("get_dag_map", **which)
        await agent.call("get_run_progress", **which)


async def maps_in_a_chat(agent: AgentClient) -> None:
    """Draw maps of plans that are too large, unchanged since the last map, in review, or failed."""
    await agent.call("draw_map", planId=(await agent.plan(150))["planId"])
    plan = await agent.plan(1)
    named = {"planId": plan["planId"]}
    seen = await agent.call("draw_map", **named)
    await agent.call("draw_map", **named, seen=seen["version"])
    taken = await agent.take(plan)
    await agent.review(taken, summary="Well?")
    await agent.call("draw_map", **named)
    await agent.call("submit_user_decision", **named, decision="reject")
    await agent.call("draw_map", **named)
