"""Org with sample data, so that no page is empty."""

from dataclasses import dataclass
from datetime import timedelta

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from waybook.core.decision_context import Channel
from waybook.store.calls import LoggedCall

TOPICS = ("business case", "features", "technology", "metrics")
MADE_OF_THEM = ("Business case", "Feature spec", "Technical approach", "Success metrics")


@dataclass(frozen=True, slots=True)
class SampleOrg:
    plan: Body
    run: Body
    #: Last completed job of the run.
    job: Body
    #: Id of a rendered document of the run.
    document_id: str
    output: Body
    #: Id of research for the plan.
    research_id: str


def _step(kind: str, title: str, *after: int) -> Body:
    waits: Body = {"dependsOn": list(after)} if after else {}
    instructions = f"{title}: read the newest sources and note where they disagree."
    return {"stepType": kind, "title": title, "instructions": instructions, **waits}


def sample_steps() -> list[Body]:
    """Return 13 steps: scope, four surveys, four analyses, a synthesis, three documents."""
    surveys = [_step("search", f"Survey {topic}", 1) for topic in TOPICS]
    made = [_step("analyze", name, 2 + n) for n, name in enumerate(MADE_OF_THEM)]
    last = ("Product requirements", "System architecture", "Tech stack")
    return [
        _step("search", "Scope the question"),
        *surveys,
        *made,
        _step("synthesize", "Put it together", 6, 7, 8, 9),
        *(_step("synthesize", name, 10) for name in last),
    ]


async def create_sample_org(world: OrgEnv) -> SampleOrg:
    """Create a plan that awaits review, a completed plan, and a run in its first stage."""
    (plan, research_id), (run, job) = await _half_way(world), await _a_run(world.agent)
    documents = (await world.agent.progress(run, detail=True))["stages"][0]["documents"]
    document_id = documents[0]["resourceId"]
    output = await _delivered(world.agent)
    work = SampleOrg(plan, run, job, document_id, output, research_id)
    await _called(world, work)
    return work


async def _half_way(world: OrgEnv) -> tuple[Body, str]:
    """Create a plan that awaits review; return the plan and the id of its research."""
    agent = world.agent
    plan = await agent.plan(
        sample_steps(),
        name="Compare three proposals for the billing rewrite",
        researchQuestion="Which of the three should we build, and in what order?",
        budget={"tokens": 200_000},
    )
    for minutes in (2, 4, 3, 6, 5):
        taken = await agent.take(plan, sessionId="morning")
        world.clock.advance(minutes=minutes)
        await agent.submit(
            taken,
            {"findings": "Three sources agree; one is older than the rest."},
            confidence=0.8,
            usage={"inputTokens": 12_000, "outputTokens": 800, "costUsd": 0.04, "model": "m"},
        )
    source = {"url": "https://example.org/billing", "title": "Billing, ten years on"}
    await agent.take(plan, sessionId="a")
    await agent.take(plan, sessionId="b")
    asking = await agent.take(plan, sessionId="c")
    note = {"kind": "finding", "title": "Retention leads", "content": "It predicts revenue."}
    stored = await agent.call("store_research", stepId=asking["stepId"], sources=[source], **note)
    written = {"mediaType": "text/markdown", "title": "So far", "content": "Retention *leads*."}
    await agent.call("store_research_output", planId=plan["planId"], **written)
    world.clock.advance(minutes=3)
    await agent.call(
        "request_user_review",
        stepId=asking["stepId"],
        attempt=asking["attempt"],
        summary="The metrics disagree with the business case: keep NPS or retention?",
        questions=["Which metric leads?", "May we drop the other?"],
        resultSummary={"nps": 41, "retention": 0.87},
    )
    world.clock.advance(minutes=4)
    return plan, str(stored["artifactId"])


async def _called(world: OrgEnv, work: SampleOrg) -> None:
    """Add four calls from the last 18 minutes to the tool-call log."""
    fourth = work.plan["stepIds"][3]
    made = (
        ("get_next_step", 2.1, None),
        ("get_step_context", 3.4, None),
        ("submit_step_result", 2.8, "STALE_ATTEMPT"),
        ("submit_step_result", 2.6, None),
    )
    for number, (tool, took, code) in enumerate(made):
        world.dispatcher.calls.record(
            LoggedCall(
                org_id=world.agent.org_id,
                at=world.clock.now - timedelta(minutes=18 - 2 * number),
                tool=tool,
                actor="ann",
                channel=Channel.MCP,
                session="morning",
                duration_ms=took,
                request_bytes=200,
                response_bytes=900,
                is_error=code is not None,
                error_code=code,
                replayed=False,
                step_id=fourth,
            )
        )
    await world.dispatcher.calls.flush()


async def _delivered(agent: AgentClient) -> Body:
    plan = await agent.plan(2, name="Rivers of the north")
    await agent.work_through(plan)
    content = "# Rivers\n\nThe *Tana*."
    written = {"mediaType": "text/markdown", "title": "Rivers", "content": content}
    return await agent.call("store_research_output", planId=plan["planId"], **written)


async def _a_run(agent: AgentClient) -> tuple[Body, Body]:
    """Create a run in its first stage; return the run and the job that was completed last."""
    run = await agent.run("dialectic", ["opus", "gpt", "gemini"], input="Build a lighthouse.")
    job: Body = {}
    for _ in range(9):
        job = await agent.job(run)
        await agent.submit_documents(job, f"# {job['stepName']}\n\nBy *{job['modelId']}*.")
    await render_all(agent)
    return run, job
