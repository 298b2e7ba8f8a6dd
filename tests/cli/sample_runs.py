"""Sample runs for tests of commands, each in a given state."""

from dataclasses import dataclass

from cli.terminal import Body, Terminal
from waybook.background import render_all_orgs
from waybook.cli.runtime import AppSession
from waybook.core.decision_context import Channel

MODELS = ["alpha", "beta", "gamma"]


@dataclass(frozen=True)
class Worker:
    """Agent that calls tools through the dispatcher."""

    here: AppSession

    async def call(self, tool: str, **arguments: object) -> Body:
        caller = self.here.app.caller(Channel.MCP)
        answer = await self.here.call_tool(tool, arguments, caller)
        assert not answer.is_error, answer.body
        return answer.body

    async def start(self, name: str, dag: str = "dialectic", models: int = 3) -> str:
        named = {"dagSlug": dag, "name": name, "input": "Move the reports to a queue."}
        run = await self.call("start_run", **named, models=MODELS[:models])
        return str(run["runId"])

    async def work(self, run_id: str, jobs: int, text: str = "# Found\n\nA *text*.") -> str:
        """Complete up to `jobs` jobs; return the status of the last reply of get_next_job."""
        for _ in range(jobs):
            job = await self.call("get_next_job", runId=run_id)
            if job["status"] != "job_ready":
                return str(job["status"])
            held = {"jobId": job["jobId"], "attempt": job["attempt"]}
            await self.call("submit_job_result", **held, documents=[{"content": text}])
        return "job_ready"

    async def finish(self, run_id: str) -> None:
        while True:
            job = await self.call("get_next_job", runId=run_id)
            if job["status"] == "job_ready":
                held = {"jobId": job["jobId"], "attempt": job["attempt"]}
                await self.call(
                    "submit_job_result", **held, documents=[{"content": "# Found\n\nA *text*."}]
                )
            elif job["status"] == "awaiting_feedback":
                feedback = {"stageSlug": job["stageSlug"], "feedback": "Go on."}
                await self.call("submit_stage_feedback", runId=run_id, **feedback)
            else:
                assert job["status"] == "run_complete", job
                return

    async def render(self) -> None:
        while await render_all_orgs(self.here.app.services):
            pass


def run_in_progress(terminal: Terminal, name: str) -> str:
    """Return a dialectic run in its second stage, with a job held by ada and a failed job."""

    async def act(here: AppSession) -> str:
        worker = Worker(here)
        run_id = await worker.start(name)
        assert await worker.work(run_id, 100) == "awaiting_feedback"
        feedback = {"stageSlug": "thesis", "feedback": "Shorter."}
        await worker.call("submit_stage_feedback", runId=run_id, **feedback)
        await worker.work(run_id, 9 + 4)
        lost = await worker.call("get_next_job", runId=run_id)
        held = {"jobId": lost["jobId"], "attempt": lost["attempt"]}
        await worker.call("fail_job", **held, error="no such model", retryable=False)
        await worker.call("get_next_job", runId=run_id, sessionId="ada")
        await worker.render()
        return run_id

    return terminal.inside(act)


def run_awaiting_feedback(terminal: Terminal, name: str) -> str:
    async def act(here: AppSession) -> str:
        worker = Worker(here)
        run_id = await worker.start(name, models=1)
        assert await worker.work(run_id, 100) == "awaiting_feedback"
        return run_id

    return terminal.inside(act)


def completed_run(terminal: Terminal, name: str, models: int = 1) -> str:
    """Return a completed run in which some documents are not rendered."""

    async def act(here: AppSession) -> str:
        worker = Worker(here)
        run_id = await worker.start(name, models=models)
        await worker.finish(run_id)
        return run_id

    return terminal.inside(act)
