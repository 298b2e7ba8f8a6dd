"""Calls of each tool that reads a plan or a run; all answers, even errors, are collected."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from org_env import AgentClient, Body
from waybook.app.request.caller import Answer

PARTS = ("researchQuestion", "planFormattingNotes", "steps", "artifacts", "event:1")


@dataclass
class Reader:
    agent: AgentClient
    answers: list[Answer] = field(default_factory=list)

    async def ask(self, tool: str, **arguments: object) -> Body:
        self.answers.append(await self.agent.ask(tool, arguments))
        return self.answers[-1].body

    async def plan(self, plan: Body) -> None:
        named = {"planId": plan["planId"]}
        for tool in ("get_dag_map", "get_run_progress", "draw_map", "get_next_step"):
            await self.ask(tool, **named)
        await self.ask("get_plan_status", **named)
        await self.ask("get_plan_status", **named, detail=True)
        await self.ask("get_research_context", **named)
        context = await self.ask("get_research_context", **named, detail=True)
        await self.ask("get_research_context", **named, since=0)
        for part in PARTS:
            await self.ask("get_research_context", **named, part=part)
        for artifact in context["artifacts"]:
            await self.artifact(artifact["artifactId"])

    async def refusals(self, plan: Body) -> None:
        """Read the context of each step, and make calls that the server must refuse."""
        named = {"planId": plan["planId"]}
        for step_id in plan["stepIds"]:
            await self.ask("get_step_context", stepId=step_id, budgetTokens=12_000)
            late = {"stepId": step_id, "resultSummary": "x"}
            await self.ask("submit_step_result", **late, attempt=77)
            await self.ask("request_user_review", stepId=step_id, summary="x")
        unknown_step = {"action": "remove_step", "stepId": "00000000-0000-0000-0000-000000000000"}
        await self.ask("modify_plan", **named, modifications=[unknown_step])
        await self.ask("submit_user_decision", **named, decision="modify")
        await self.ask("store_research", **named, kind="late_result", title="x", content="x")

    async def artifact(self, artifact_id: str) -> None:
        reply = await self.ask("get_artifact", artifactId=artifact_id)
        await self.ask("get_artifact", artifactId=artifact_id, detail=True)
        await self.ask("extract_data", artifactId=artifact_id, schema={"type": "object"})
        for source in reply.get("sources", ()):
            await self.ask("get_artifact", artifactId=source["sourceId"])

    async def run(self, run: Body) -> None:
        named = {"runId": run["runId"]}
        for tool in ("get_run_progress", "get_dag_map", "draw_map"):
            await self.ask(tool, **named)
        job = await self.ask("get_next_job", **named)
        await self.ask("get_job_input", jobId=job["jobId"])
        for job_input in job["inputs"]:
            which = {
                name: job_input[name] for name in ("documentId", "documentKey") if name in job_input
            }
            name = "documentId" if "documentId" in which else "documentKey"
            await self.ask("get_job_input", jobId=job["jobId"], **{name: which[name]})
        stage = {**named, "stageSlug": "one"}
        await self.ask("submit_stage_feedback", **stage, feedback="x")
        await self.ask("start_stage", **stage)
        await self.ask("fail_job", jobId=job["jobId"], attempt=77, error="x", retryable=True)

    async def canceled_run(self, run: Body) -> None:
        named = {"runId": run["runId"]}
        for tool in ("get_run_progress", "get_dag_map", "draw_map", "get_next_job"):
            await self.ask(tool, **named)
        await self.ask("retry_failed", **named, stageSlug="scope")


async def read_all(
    agent: AgentClient, plans: Sequence[Body], run: Body, canceled: Body
) -> list[Answer]:
    """Call every tool that reads these plans and runs; return every answer, even errors."""
    reader = Reader(agent)
    for plan in plans:
        await reader.plan(plan)
        await reader.refusals(plan)
    await reader.run(run)
    await reader.canceled_run(canceled)
    for tool in ("list_active_plans", "list_dags", "list_skills"):
        await reader.ask(tool)
    await reader.ask("search_sources", query="approve instructions review plan", limit=50)
    return reader.answers
