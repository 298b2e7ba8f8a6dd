"""Agents that start runs of a workflow, and work on their jobs."""

from typing import Final

from faults.agents import Agent
from faults.history import Body, Call
from faults.tenants import DAG, MODELS, STAGE

DONE: Final = "run_complete"


class RunAgent(Agent):
    """Agent that claims jobs, submits documents, reports some jobs as failed, and retries jobs."""

    #: Pause of an agent that holds a job. It is longer than the lease, so another agent gets the
    #: job, and the result of the first agent is late.
    doze_seconds = 8.0

    async def turn(self) -> None:
        """Work on a run of the org, or start one."""
        tenant, work = self.tenant, self.work
        if len(tenant.runs) < work.open_runs and work.makes_new:
            await self._start()
        elif tenant.runs:
            await self._work_on(self.rng.choice(sorted(tenant.runs)))
        else:
            await self.doze(0.05)

    async def _start(self) -> None:
        key = self.work.new_key()
        name = f"{self.tenant.canary} {key}"
        args: Body = {"dagSlug": DAG, "name": name, "input": self.tenant.canary}
        call = await self.call("start_run", {**args, "models": [*MODELS]}, key)
        if call.is_acknowledged:
            self.tenant.runs.add(call.reply["runId"])

    async def _work_on(self, run_id: str) -> None:
        any_run = self.rng.random() < 0.1
        args: Body = {} if any_run else {"runId": run_id}
        call = await self.call("get_next_job", args, self.work.new_key())
        status = call.reply.get("status")
        if not call.is_acknowledged:
            return
        if status == "job_ready":
            await self._do(self.body["jobId"], self.body["attempt"])
        elif status == "stage_failed":
            await self._retry(self.body["runId"])
        elif status == DONE:
            self.tenant.runs.discard(self.body["runId"])
        else:
            await self.doze(0.1)

    async def _do(self, job_id: str, attempt: int) -> None:
        work = self.work
        if work.chance(0.02):
            await self.die()
            return
        if work.chance(0.01):
            await self.doze(self.doze_seconds)
        elif work.chance(0.4):
            await self.doze(self.rng.uniform(0, 0.6))
        if work.chance(0.03):
            await self._fail(job_id, attempt)
        else:
            await self._submit(job_id, attempt)

    async def _submit(self, job_id: str, attempt: int) -> Call:
        key = self.work.new_key()
        text = f"# Found\n\n{self.tenant.canary} {key}"
        args = {"jobId": job_id, "attempt": attempt, "documents": [{"content": text}]}
        return await self.call("submit_job_result", args, key)

    async def _fail(self, job_id: str, attempt: int) -> None:
        key = self.work.new_key()
        args = {"jobId": job_id, "attempt": attempt, "error": f"It did not work ({key})."}
        await self.call("fail_job", {**args, "retryable": self.rng.random() < 0.7}, key)

    async def _retry(self, run_id: str) -> None:
        args = {"runId": run_id, "stageSlug": STAGE}
        await self.call("retry_failed", args, self.work.new_key())
