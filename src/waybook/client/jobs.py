"""Jobs of a run that this client holds."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from waybook.client.claims import Caller, Claim, ClaimTerms, describe_error
from waybook.client.replies import (
    FailedJob,
    JobDocument,
    JobInput,
    JsonValue,
    SubmittedDocument,
    SubmittedJob,
    Usage,
)

BEATS_PER_LEASE = 3


class Job(Claim):
    """Job that this client holds, with its prompt and inputs."""

    KIND = "job"

    def __init__(self, caller: Caller, reply: Mapping[str, Any], terms: ClaimTerms) -> None:
        seconds = min(terms.heartbeat_seconds, reply["leaseSeconds"] / BEATS_PER_LEASE)
        super().__init__(caller, reply, terms._replace(heartbeat_seconds=seconds))
        self.run_id = str(reply["runId"])
        self.job_id = str(reply["jobId"])
        self.stage = str(reply["stageSlug"])
        self.step_key = str(reply["stepKey"])
        self.type = str(reply["jobType"])
        self.model: str | None = reply.get("modelId")
        self.prompt: str = reply.get("prompt") or ""
        self.inputs: Sequence[JobInput] = reply.get("inputs") or []
        self.documents: Sequence[JobDocument] = reply.get("documents") or []
        #: End of the text that this job continues. Empty if the job starts a new text.
        self.so_far: str = reply.get("soFar") or ""
        self.is_resumed = bool(reply.get("resumed"))

    @property
    def id(self) -> str:
        return self.job_id

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
            "fail_job",
            jobId=self.job_id,
            attempt=self.attempt,
            error=error,
            retryable=retryable,
        )
        return cast("FailedJob", reply)

    async def _beat(self) -> None:
        await self._caller.call("get_job_input", jobId=self.job_id, attempt=self.attempt)

    async def _give_back(self, error: BaseException | None) -> None:
        retryable = self._on_error == "retry" or not isinstance(error, Exception | None)
        await self.fail(describe_error(error), retryable=retryable)
