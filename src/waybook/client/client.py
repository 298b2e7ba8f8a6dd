"""Async client that calls the tools of a Waybook server."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from waybook.client.claims import Claim, new_key
from waybook.client.connection import Connection
from waybook.client.errors import NothingReady, error_in_result
from waybook.client.http import HttpConnection
from waybook.client.jobs import Job
from waybook.client.replies import CreatedPlan, JsonValue, NewStep, OnError, StartedRun, Until
from waybook.client.retries import Retry, call_with_retries
from waybook.client.steps import Step
from waybook.client.tool_names import KEYED_TOOLS, REPEATABLE_TOOLS

ClaimT = TypeVar("ClaimT", bound=Claim)

#: Statuses of a plan or run that is complete.
COMPLETE: Final = frozenset({"plan_complete", "run_complete"})
#: Statuses that end only if a person or an agent intervenes outside of the loop.
STUCK: Final = frozenset({"plan_failed", "stage_failed"})
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
DEFAULT_HEARTBEAT_SECONDS: Final = 30.0
DEFAULT_POLL_SECONDS: Final = 2.0


@dataclass
class _OpenClaims:
    """Claims of one session in one plan or run."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    held: list[Claim] = field(default_factory=list)


def _has_key(arguments: Mapping[str, object]) -> bool:
    """Return whether a call has an idempotency key; the server ignores a blank one."""
    key = arguments.get("idempotencyKey")
    return key is not None and str(key).strip() != ""


class Client:
    """Client of one agent; its calls may run concurrently."""

    def __init__(
        self,
        url: str | Connection,
        token: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        session_id: str | None = None,
        retry: Retry | None = None,
        heartbeat_seconds: float = DEFAULT_HEARTBEAT_SECONDS,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> None:
        """Prepare calls to the server at this URL; `timeout` is in seconds per attempt.

        In place of a URL, pass a `StdioConnection` to start a local server.

        An agent that restarts with the same `session_id` gets the steps and jobs back that it
        held; without a `session_id`, every client is a new session.
        """
        self._connection = HttpConnection(url, token, timeout) if isinstance(url, str) else url
        self.url = self._connection.url
        self.session_id = session_id or f"python-{new_key()}"
        self._retry = retry or Retry()
        self._heartbeat_seconds = heartbeat_seconds
        self._poll_seconds = poll_seconds
        #: Claims that this client handed out, by session and plan or run.
        self._claims: defaultdict[tuple[str, str], _OpenClaims] = defaultdict(_OpenClaims)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.close()

    # Calls

    async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """Call a tool and return its reply.

        A call that changes something gets an `idempotencyKey`, unless it has one. While the server
        is unreachable, busy or over its rate limit, the call is repeated with the same key.

        Raises:
            WaybookError: the tool refused, by the error's own class; `Unavailable` if the server
                cannot be reached until the deadline for retries.
        """
        if tool in KEYED_TOOLS and not _has_key(arguments):
            arguments["idempotencyKey"] = new_key()
        repeatable = tool in REPEATABLE_TOOLS or _has_key(arguments)
        params: dict[str, object] = {"name": tool, "arguments": arguments}

        async def attempt(left: float | None) -> dict[str, Any]:
            result = await self._connection.ask("tools/call", params, left)
            if result.get("isError"):
                raise error_in_result(result)
            reply: dict[str, Any] = result["structuredContent"]
            return reply

        return await call_with_retries(attempt, self._retry, repeatable=repeatable)

    async def tools(self) -> list[dict[str, Any]]:
        """Return the tools that the server offers, as described by the MCP protocol."""

        async def attempt(left: float | None) -> dict[str, Any]:
            return await self._connection.ask("tools/list", {}, left)

        result = await call_with_retries(attempt, self._retry, repeatable=True)
        listed: list[dict[str, Any]] = result["tools"]
        return listed

    async def create_plan(
        self, name: str, question: str, steps: Sequence[NewStep], **more: object
    ) -> CreatedPlan:
        """Create a plan; `more` are other arguments of `create_research_plan`."""
        reply = await self.call(
            "create_research_plan",
            name=name,
            researchQuestion=question,
            steps=[*steps],
            **{"sessionId": self.session_id, **more},
        )
        return cast("CreatedPlan", reply)

    async def start_run(
        self, dag: str, name: str, input_: JsonValue, models: Sequence[str], **more: object
    ) -> StartedRun:
        """Start a run of a DAG; `more` are other arguments of `start_run`."""
        reply = await self.call(
            "start_run", dagSlug=dag, name=name, input=input_, models=[*models], **more
        )
        return cast("StartedRun", reply)

    # Steps

    @asynccontextmanager
    async def step(
        self, plan_id: str, *, session_id: str | None = None, on_error: OnError = "retry"
    ) -> AsyncIterator[Step]:
        """Claim the next step of a plan for the time of a block.

        If the block raises an error, `retry` gives the step back for another attempt, `fail` fails
        it, and `keep` leaves it with this session.

        Raises:
            NothingReady: the plan has no step for this client now.
            NotSubmitted: the block ended without a result.
            HoldLost: the step was taken back or taken over; the block was canceled.
        """
        session = session_id or self.session_id
        step = await self._claim(Step, "get_next_step", session, on_error, planId=plan_id)
        async with step:
            yield step

    async def steps(
        self,
        plan_id: str,
        *,
        session_id: str | None = None,
        on_error: OnError = "retry",
        until: Until = "complete",
    ) -> AsyncGenerator[Step, None]:
        """Yield claimed steps until the plan is complete, or until none is ready now (`idle`).

        Work on each step in `async with step:`, so that an error gives the step back at once and a
        lost hold cancels the work.

        Raises:
            NothingReady: the plan failed, or only failed steps are left.
            NotSubmitted: the work on a step ended without a result.
        """
        session = session_id or self.session_id
        while True:
            try:
                step = await self._claim(Step, "get_next_step", session, on_error, planId=plan_id)
            except NothingReady as nothing:
                if await self._is_over(nothing, until):
                    return
                continue
            async with step.in_loop():
                yield step

    # Jobs

    @asynccontextmanager
    async def job(
        self,
        run_id: str | None = None,
        *,
        model: str | None = None,
        session_id: str | None = None,
        on_error: OnError = "retry",
    ) -> AsyncIterator[Job]:
        """Claim the next job of a run, or of any run, for the time of a block.

        If the block raises an error, `retry` schedules another attempt, `fail` fails the job, and
        `keep` leaves it with this session until its lease ends.

        Raises:
            NothingReady: there is no job for this client now.
            NotSubmitted: the block ended without a result.
            HoldLost: another worker took the job over; the block was canceled.
        """
        session = session_id or self.session_id
        wanted = _without_none(runId=run_id, modelId=model)
        job = await self._claim(Job, "get_next_job", session, on_error, **wanted)
        async with job:
            yield job

    async def jobs(
        self,
        run_id: str | None = None,
        *,
        model: str | None = None,
        session_id: str | None = None,
        on_error: OnError = "retry",
        until: Until = "complete",
    ) -> AsyncGenerator[Job, None]:
        """Yield claimed jobs of a run until it is complete, or until none is ready (`idle`).

        Without a run, yield jobs of every run; with a model, only jobs for this model. Work on each
        job in `async with job:`.

        Raises:
            NothingReady: a stage failed.
            NotSubmitted: the work on a job ended without a result.
        """
        session = session_id or self.session_id
        wanted = _without_none(runId=run_id, modelId=model)
        while True:
            try:
                job = await self._claim(Job, "get_next_job", session, on_error, **wanted)
            except NothingReady as nothing:
                if await self._is_over(nothing, until):
                    return
                continue
            async with job.in_loop():
                yield job

    async def _claim(
        self,
        kind: Callable[..., ClaimT],
        tool: str,
        session: str,
        on_error: OnError,
        **arguments: object,
    ) -> ClaimT:
        """Claim a step or job, or the one that this session held before it was restarted."""
        subject = (session, str(arguments.get("planId") or arguments.get("runId")))
        claims = self._claims[subject]
        # One claim at a time, because a claim while another is in flight would get the same step.
        async with claims.lock:
            claims.held = [claim for claim in claims.held if claim.is_held]
            another = {"another": True} if claims.held else {}
            reply = await self.call(tool, **arguments, **another, sessionId=session)
            if reply["status"] not in {"step_ready", "job_ready"}:
                raise NothingReady(reply)
            claim = kind(
                self,
                reply,
                session_id=session,
                on_error=on_error,
                heartbeat_seconds=self._heartbeat_seconds,
            )
            claims.held.append(claim)
            return claim

    async def _is_over(self, nothing: NothingReady, until: Until) -> bool:
        """Return whether a loop ends; if others have to act first, wait a moment.

        Raises:
            NothingReady: no other agent and no person is expected to act.
        """
        if nothing.status in COMPLETE:
            return True
        if nothing.status in STUCK or _has_only_failures(nothing.reply):
            raise nothing
        if until == "idle":
            return True
        await asyncio.sleep(self._poll_seconds)
        return False


def _has_only_failures(reply: Mapping[str, Any]) -> bool:
    """Return whether a plan waits for steps that failed, while no agent works on it."""
    return reply["status"] == "no_pending_steps" and not reply["inProgress"]


def _without_none(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}
