"""Steps of a plan and jobs of a run that this client holds."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from waybook.client.claims import Caller, Claim, ClaimTerms, State, describe_error
from waybook.client.errors import HoldLost
from waybook.client.replies import (
    FailedJob,
    JobDocument,
    JobInput,
    JsonValue,
    RequestedReview,
    StepContext,
    SubmittedDocument,
    SubmittedJob,
    SubmittedStep,
    Usage,
)
from waybook.errors import StalePlan

#: Heartbeats request the smallest context that the server accepts.
_HEARTBEAT_TOKENS = 500
_MAX_REVISION_CONFLICTS = 5


class Step(Claim):
    """Step that this client holds, with its instructions."""

    KIND = "step"
    TOOL = "get_next_step"

    def __init__(self, caller: Caller, reply: Mapping[str, Any], terms: ClaimTerms) -> None:
        super().__init__(caller, reply, terms)
        self.id = self.step_id = str(reply["stepId"])
        self.plan_id = str(reply["planId"])
        self.order = int(reply["stepOrder"])
        self.type = str(reply["stepType"])
        self.title: str = reply.get("title") or ""
        self.instructions: str = reply.get("instructions") or ""
        self.result_schema: dict[str, JsonValue] | None = reply.get("resultSchema")

    async def context(self, budget_tokens: int | None = None) -> StepContext:
        """Return the step's context: question, feedback, earlier results, relevant artifacts."""
        limit = {} if budget_tokens is None else {"budgetTokens": budget_tokens}
        reply = await self._caller.call("get_step_context", stepId=self.step_id, **limit)
        return cast("StepContext", reply)

    async def submit(
        self,
        result: JsonValue,
        *,
        confidence: float | None = None,
        report: JsonValue = None,
        formatting_notes: str | None = None,
        usage: Usage | None = None,
    ) -> SubmittedStep:
        """Complete the step with its result.

        Raises:
            InvalidInput: the result does not match the schema, or sources are missing; the step is
                still held, so submit a corrected result.
            StaleAttempt: this client no longer holds the step; the result was stored as a late
                result and has no effect.
        """
        reply = await self._end(
            "submit_step_result",
            stepId=self.step_id,
            attempt=self.attempt,
            resultSummary=result,
            confidence=confidence,
            stepExecutionReport=report,
            outputFormattingNotes=formatting_notes,
            usage=usage,
        )
        return cast("SubmittedStep", reply)

    async def review(
        self, summary: str, *, questions: Sequence[str] = (), result: JsonValue = None
    ) -> RequestedReview:
        """Ask a person to decide about the step. The plan pauses until the decision."""
        reply = await self._end(
            "request_user_review",
            stepId=self.step_id,
            attempt=self.attempt,
            summary=summary,
            questions=[*questions] or None,
            resultSummary=result,
        )
        return cast("RequestedReview", reply)

    async def fail(self, reason: str, *, retry: bool = False) -> None:
        """Fail the step. With `retry`, another attempt can be claimed immediately.

        Raises:
            HoldLost: this client no longer holds the step.
        """
        async with self._without_heartbeat():
            await self._modify({"action": "fail_step", "reason": reason, "retry": retry})
        self._state = State.ENDED

    async def _beat(self) -> None:
        reply = await self.context(_HEARTBEAT_TOKENS)
        status, attempt = reply["status"], reply["attempt"]
        if (status, attempt) != ("in_progress", self.attempt):
            raise HoldLost(f"it is at attempt {attempt}, {status}")

    async def _give_back(self, error: BaseException | None) -> None:
        if isinstance(error, Exception | None):
            await self._modify(
                {
                    "action": "fail_step",
                    "reason": describe_error(error),
                    "retry": self._on_error == "retry",
                }
            )
        else:  # The agent was canceled.
            await self._modify({"action": "retry_step"})

    async def _modify(self, change: Mapping[str, object]) -> None:
        """Change the step if this client still holds it."""
        for conflicts in range(1, _MAX_REVISION_CONFLICTS + 1):
            plan = await self._caller.call("get_plan_status", planId=self.plan_id, detail=True)
            holds = {(step["stepId"], step["attempt"]) for step in plan["activeSteps"]}
            if (self.step_id, self.attempt) not in holds:
                raise HoldLost(f"step {self.step_id}, attempt {self.attempt}, is not in progress")
            try:
                await self._caller.call(
                    "modify_plan",
                    planId=self.plan_id,
                    modifications=[{**change, "stepId": self.step_id}],
                    expectedRevision=plan["revision"],
                    sessionId=self._session_id,
                )
            except StalePlan:
                if conflicts == _MAX_REVISION_CONFLICTS:
                    raise
            else:
                return


_BEATS_PER_LEASE = 3


class Job(Claim):
    """Job that this client holds, with its prompt and inputs."""

    KIND = "job"
    TOOL = "get_next_job"

    def __init__(self, caller: Caller, reply: Mapping[str, Any], terms: ClaimTerms) -> None:
        seconds = min(terms.heartbeat_seconds, reply["leaseSeconds"] / _BEATS_PER_LEASE)
        super().__init__(caller, reply, terms._replace(heartbeat_seconds=seconds))
        self.run_id = str(reply["runId"])
        self.id = self.job_id = str(reply["jobId"])
        self.stage = str(reply["stageSlug"])
        self.step_key = str(reply["stepKey"])
        self.type = str(reply["jobType"])
        self.model: str | None = reply.get("modelId")
        self.prompt: str = reply.get("prompt") or ""
        self.inputs: Sequence[JobInput] = reply.get("inputs") or []
        self.documents: Sequence[JobDocument] = reply.get("documents") or []
        #: End of the text that this job continues. Empty if the job starts a new text.
        self.so_far: str = reply.get("soFar") or ""

    async def read_input(self, job_input: JobInput) -> str:
        """Return the complete text of an input. `get_next_job` may have returned only its start."""
        text = job_input["content"]
        rest: dict[str, Any] | None = (job_input.get("cut") or {}).get("get")
        while rest is not None:
            piece = await self._caller.call("get_job_input", **rest["args"])
            text += piece["content"]
            rest = piece["next"] if piece["left"] else None
        return text

    async def submit(
        self,
        content: JsonValue = None,
        *,
        documents: Sequence[SubmittedDocument] | None = None,
        continues: bool = False,
        usage: Usage | None = None,
    ) -> SubmittedJob:
        """Complete the job with one `content`, or with several `documents`.

        With `continues`, the content is only a part of the result, and another job
        continues it.

        Raises:
            InvalidInput: documents are missing or unknown; the job is still held.
            StaleAttempt: this client no longer holds the job; the result was stored as a late
                result and has no effect.
        """
        reply = await self._end(
            "submit_job_result",
            jobId=self.job_id,
            attempt=self.attempt,
            documents=[{"content": content}] if documents is None else [*documents],
            continues=continues or None,
            usage=usage,
        )
        return cast("SubmittedJob", reply)

    async def fail(self, error: str, *, retryable: bool = True) -> FailedJob:
        """Report that the job failed. If `retryable` is set, the job is tried again later."""
        reply = await self._end(
            "fail_job", jobId=self.job_id, attempt=self.attempt, error=error, retryable=retryable
        )
        return cast("FailedJob", reply)

    async def _beat(self) -> None:
        await self._caller.call("get_job_input", jobId=self.job_id, attempt=self.attempt)

    async def _give_back(self, error: BaseException | None) -> None:
        retryable = self._on_error == "retry" or not isinstance(error, Exception | None)
        await self.fail(describe_error(error), retryable=retryable)
