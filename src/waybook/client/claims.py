"""Claims: steps and jobs that this client holds. A claim sends heartbeats until its work ends."""

import asyncio
import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, cast
from uuid import uuid4

from waybook.client.errors import HoldLost, NotSubmitted
from waybook.client.replies import (
    FailedJob,
    JobDocument,
    JobInput,
    JsonValue,
    OnError,
    RequestedReview,
    StepContext,
    SubmittedDocument,
    SubmittedJob,
    SubmittedStep,
    Usage,
)
from waybook.errors import NotFound, Refused, StaleAttempt, StalePlan, WaybookError

_MAX_GIVE_BACK_SECONDS = 10.0
_MAX_REASON_LENGTH = 500
#: Heartbeats request the smallest context that the server accepts.
_HEARTBEAT_TOKENS = 500
_MAX_REVISION_CONFLICTS = 5
_BEATS_PER_LEASE = 3
TASK_NAME = "waybook-heartbeat"

log = logging.getLogger(__name__)


class Caller(Protocol):
    """Protocol for the client through which a claim calls tools."""

    async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]: ...


class ClaimTerms(NamedTuple):
    session_id: str
    on_error: OnError
    heartbeat_seconds: float


class State(Enum):
    """State of a claim. A claim can be submitted only while it is held."""

    HELD = auto()
    ENDED = auto()
    LOST = auto()


class Claim(ABC):
    """Step or job that this client holds.

    Inside `async with claim:`, heartbeats are sent. If the claim is lost, the block is canceled and
    raises `HoldLost`. If the block raises an error, the claim is given back as `on_error` says. A
    block that ends without a result raises `NotSubmitted`.
    """

    KIND: str
    #: Tool that claims a step or job.
    TOOL: str
    #: Id of the step or job.
    id: str

    def __init__(self, caller: Caller, reply: Mapping[str, Any], terms: ClaimTerms) -> None:
        self.reply = reply
        self._caller = caller
        self._session_id = terms.session_id
        self._on_error: OnError = terms.on_error
        self._heartbeat_seconds = terms.heartbeat_seconds
        self._heartbeat: asyncio.Task[None] | None = None
        self._state = State.HELD
        self._loss: WaybookError | None = None
        #: Whether the agent already knows from an error that the claim is lost.
        self._loss_is_reported = False
        self._task: asyncio.Task[Any] | None = None
        self._canceling = 0
        self._was_interrupted = False
        #: Whether this session had this claim before, or a reviewer returned the step.
        self.is_resumed = bool(reply.get("resumed"))

    @property
    def is_held(self) -> bool:
        return self._state is State.HELD

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        self._canceling = self._task.cancelling() if self._task else 0
        self._start_heartbeat()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._was_interrupted and task is not None:
            is_canceled_too = task.uncancel() > self._canceling
            if not is_canceled_too and isinstance(error, asyncio.CancelledError | None):
                raise self._hold_lost() from self._loss
        await self.close(error)

    @asynccontextmanager
    async def in_loop(self) -> AsyncIterator[None]:
        """Send heartbeats during one iteration of a loop, then close the claim.

        If the claim is lost, the next `submit` reports the loss.
        """
        self._start_heartbeat()
        try:
            yield
        except BaseException as error:
            await self.close(error)
            raise
        await self.close()

    async def close(self, error: BaseException | None = None) -> None:
        """Stop the heartbeats, and give the claim back if it is still held.

        Raises:
            NotSubmitted: the claim is still held, although its work ended without an error.
            HoldLost: the claim was lost, and no earlier error reported this.
        """
        await self._stop_heartbeat()
        if self._state is State.LOST and error is None and not self._loss_is_reported:
            raise self._hold_lost() from self._loss
        if not self.is_held:
            return
        self._state = State.ENDED
        if self._on_error != "keep":
            try:
                async with asyncio.timeout(_MAX_GIVE_BACK_SECONDS):
                    await self._give_back(error)
            except (WaybookError, TimeoutError) as failure:
                log.warning("%s %s was not given back: %s", self.KIND, self.id, failure)
        if error is None:
            raise NotSubmitted(
                f"the work on {self.KIND} {self.id} ended without a result: call submit in the "
                f"block; the {self.KIND} was {'kept' if self._on_error == 'keep' else 'given back'}"
            )

    async def _end(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Make the call that ends this claim. After `StaleAttempt`, the claim is lost.

        After any other error, the claim is still held.
        """
        if self._state is State.LOST:
            self._loss_is_reported = True
            raise self._hold_lost() from self._loss
        # A repetition of this call gets the same key, so that the call takes effect only once.
        identity = [tool, {**arguments, "attempt": self.attempt, "id": self.id}]
        text = json.dumps(identity, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:40]
        named = {name: value for name, value in arguments.items() if value is not None}
        async with self._without_heartbeat():
            reply = await self._caller.call(
                tool, **named, sessionId=self._session_id, idempotencyKey=key
            )
        self._state = State.ENDED
        return reply

    @asynccontextmanager
    async def _without_heartbeat(self) -> AsyncIterator[None]:
        """Stop the heartbeat during a call that ends the claim.

        A heartbeat after this call would be refused and look like a lost claim.
        """
        is_beating = self._heartbeat is not None and not self._heartbeat.done()
        await self._stop_heartbeat()
        try:
            yield
        except StaleAttempt as error:
            self._state, self._loss, self._loss_is_reported = State.LOST, error, True
            raise
        except Exception:
            if is_beating:
                self._start_heartbeat()
            raise

    def _start_heartbeat(self) -> None:
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._send_heartbeats(), name=TASK_NAME)

    async def _stop_heartbeat(self) -> None:
        task, self._heartbeat = self._heartbeat, None
        if task is not None:
            task.cancel()
            # `await task` would raise the CancelledError of the heartbeat.
            await asyncio.wait([task])

    async def _send_heartbeats(self) -> None:
        """Send heartbeats until one is refused, which means that the claim is lost."""
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            try:
                await self._beat()
            except (NotFound, Refused) as error:
                self._state, self._loss = State.LOST, error
                if self._task is not None:
                    self._was_interrupted = True
                    self._task.cancel()
                return
            except WaybookError as error:
                # A claim survives a missed heartbeat, so the work continues during a server outage.
                seconds = self._heartbeat_seconds
                log.warning("heartbeat failed, next one in %g s: %s", seconds, error)

    def _hold_lost(self) -> HoldLost:
        why = self._loss.message if self._loss else "it ended"
        return HoldLost(f"{self.KIND} {self.id}, attempt {self.attempt}, is not yours now: {why}")

    @property
    def attempt(self) -> int:
        return int(self.reply["attempt"])

    @abstractmethod
    async def _beat(self) -> None:
        """Send one heartbeat, or raise the server's refusal if the claim is lost."""

    @abstractmethod
    async def _give_back(self, error: BaseException | None) -> None:
        """Give the step or job back to the server, with the error that ended the work, if any."""


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
        """Ask a person to decide about the step. The step pauses until the decision."""
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
            raise HoldLost(f"the step is at attempt {attempt}, {status}")

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


def describe_error(error: BaseException | None) -> str:
    """Return one line that describes an error to the next holder.

    >>> describe_error(ValueError("bad   value"))
    'ValueError: bad value'
    """
    if error is None:
        return "the agent ended its work without a result"
    return " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_REASON_LENGTH]


def new_key() -> str:
    return uuid4().hex
