"""Async client that calls the tools of a Waybook server."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NotRequired, Self, TypedDict, TypeVar, cast

from waybook.client.claims import Claim, ClaimTerms, Job, Step, new_key
from waybook.client.connection import Connection, HttpConnection, Retry, call_with_retries
from waybook.client.errors import NothingReady, error_in_result
from waybook.client.replies import CreatedPlan, JsonValue, NewStep, OnError, StartedRun, Until

KEYED_TOOLS: Final = frozenset(
    {
        "add_dag",
        "cancel_run",
        "comment",
        "complete_skill",
        "copy_plan",
        "copy_run",
        "decide_cap",
        "give_back",
        "report_worker",
        "reserve_work",
        "settle_work",
        "create_research_plan",
        "fail_job",
        "get_next_job",
        "get_next_step",
        "modify_plan",
        "regenerate_document",
        "request_user_review",
        "retry_failed",
        "start_run",
        "start_skill",
        "start_stage",
        "store_research",
        "store_research_output",
        "submit_job_result",
        "submit_stage_feedback",
        "submit_step_result",
        "submit_user_decision",
    }
)
#: Tools that only read. `extract_data` is not listed, because a repeated call would make a language
#: model work again.
REPEATABLE_TOOLS: Final = frozenset(
    {
        "draw_map",
        "get_artifact",
        "get_dag_map",
        "get_job_input",
        "get_plan_status",
        "get_research_context",
        "get_run_progress",
        "get_step_context",
        "list_active_plans",
        "list_dags",
        "list_skills",
        "ping",
        "search_sources",
    }
)


PAGE_SIZE = 100
Decision = Literal["approve", "modify", "skip", "reject"]


class OpenReview(TypedDict):
    """Review that waits for a person. `resultSummary` is the result that an approval accepts."""

    planId: str
    planName: str
    reviewId: str
    stepId: str
    stepOrder: int
    summary: str
    questions: list[str]
    requestedAt: str
    requestedBy: str
    reviewUrl: str
    title: NotRequired[str]
    resultSummary: NotRequired[JsonValue]


_ClaimT = TypeVar("_ClaimT", bound=Claim)

COMPLETE: Final = frozenset({"plan_complete", "run_complete"})
#: Statuses in which waiting is useless: the plan failed, a stage has failed jobs, or the run was
#: canceled.
_STUCK: Final = frozenset({"plan_failed", "stage_failed", "run_canceled"})
_DEFAULT_TIMEOUT_SECONDS: Final = 30.0
_DEFAULT_HEARTBEAT_SECONDS: Final = 30.0
_DEFAULT_WAIT_SECONDS: Final = 50
READY: Final = frozenset({"step_ready", "job_ready"})


@dataclass
class _OpenClaims:
    """Claims of one session in one plan or run."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    held: list[Claim] = field(default_factory=list)
    waiting: int = 0


def _has_key(arguments: Mapping[str, object]) -> bool:
    key = arguments.get("idempotencyKey")
    return key is not None and str(key).strip() != ""


class Client:
    """Client for one agent. Concurrent calls are allowed."""

    def __init__(
        self,
        url: str | Connection,
        token: str | None = None,
        *,
        timeout: float = _DEFAULT_TIMEOUT_SECONDS,
        session_id: str | None = None,
        retry: Retry | None = None,
        heartbeat_seconds: float = _DEFAULT_HEARTBEAT_SECONDS,
        wait_seconds: int = _DEFAULT_WAIT_SECONDS,
    ) -> None:
        """Prepare calls to the server at this URL. `timeout` is in seconds for each try of a call.

        In a loop over `steps` or `jobs`, a call that finds no work waits at the server for up to
        `wait_seconds` (at most 55).

        Instead of a URL, pass a `StdioConnection` to start a local server.

        An agent that restarts with the same `session_id` gets back the steps and jobs that it held.
        Without a `session_id`, every client is a new session.
        """
        self._connection = HttpConnection(url, token, timeout) if isinstance(url, str) else url
        self.url = self._connection.url
        self.session_id = session_id or f"python-{new_key()}"
        self._retry = retry or Retry()
        self._heartbeat_seconds = heartbeat_seconds
        self._wait_seconds = wait_seconds
        self._claims: defaultdict[tuple[str, str], _OpenClaims] = defaultdict(_OpenClaims)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """Call a tool and return its reply.

        A call that changes something gets an `idempotencyKey`, unless it has one. While the server
        is unreachable, busy or over its rate limit, the call is repeated with the same key.

        Raises:
            WaybookError: the tool refused the call; the subclass depends on the error. It is
                `Unavailable` if the server cannot be reached before the deadline for retries.
        """
        if tool in KEYED_TOOLS and not _has_key(arguments):
            arguments["idempotencyKey"] = new_key()
        repeatable = tool in REPEATABLE_TOOLS or _has_key(arguments)
        params: dict[str, object] = {"name": tool, "arguments": arguments}
        seconds, retry = arguments.get("waitSeconds"), self._retry
        waiting = float(seconds) if isinstance(seconds, int | float) else 0.0
        if retry.deadline_seconds:
            retry = replace(retry, deadline_seconds=retry.deadline_seconds + waiting)

        async def attempt(left: float | None) -> dict[str, Any]:
            result = await self._connection.ask("tools/call", params, left, waiting=waiting)
            if result.get("isError"):
                raise error_in_result(result)
            reply: dict[str, Any] = result["structuredContent"]
            return reply

        return await call_with_retries(attempt, retry, repeatable=repeatable)

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
        """Create a plan. `more` contains other arguments of `create_research_plan`."""
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
        """Start a run of a workflow. `more` contains other arguments of `start_run`."""
        reply = await self.call(
            "start_run", dagSlug=dag, name=name, input=input_, models=[*models], **more
        )
        return cast("StartedRun", reply)

    async def reviews(self, plan_id: str | None = None) -> list[OpenReview]:
        """Return the open reviews of a plan, or of all plans, the longest waiting first."""
        plan_ids, page = ([] if plan_id is None else [plan_id]), dict[str, Any]()
        while plan_id is None and (not page or page["nextCursor"]):
            more = {"cursor": page["nextCursor"]} if page else {}
            page = await self.call("list_active_plans", limit=PAGE_SIZE, **more)
            plan_ids += [p["planId"] for p in page["plans"] if p["status"] == "awaiting_review"]
        reviews = []
        for each in plan_ids:
            plan = await self.call("get_plan_status", planId=each, detail=True)
            if review := plan["openReview"]:
                (step,) = (s for s in plan["activeSteps"] if s["stepId"] == review["stepId"])
                described = {name: step[name] for name in ("stepOrder", "title") if name in step}
                named = {"planId": plan["planId"], "planName": plan["name"], "questions": []}
                reviews.append(cast("OpenReview", {**named, **described, **review}))
        return sorted(reviews, key=lambda review: review["requestedAt"])

    async def decide(
        self, review: OpenReview, decision: Decision, feedback: str | None = None
    ) -> dict[str, Any]:
        """Decide a review as a person, and return the reply; `modify` needs feedback.

        After `modify`, the reviewed step goes to the next agent that claims a step.
        """
        # Without `place`, the server would assign the step to this client after `modify`.
        named = {"planId": review["planId"], "reviewId": review["reviewId"], "place": "client"}
        more = {} if feedback is None else {"feedback": feedback}
        return await self.call("submit_user_decision", **named, decision=decision, **more)

    @asynccontextmanager
    async def step(
        self, plan_id: str, *, session_id: str | None = None, on_error: OnError = "retry"
    ) -> AsyncIterator[Step]:
        """Claim the next step of a plan for the duration of a block.

        `on_error` says what happens if the block raises an error: `retry` gives the step back for
        another attempt, `fail` fails the step, and `keep` leaves the step with this session.

        Raises:
            NothingReady: the plan has no step for this client now.
            NotSubmitted: the block ended without a result.
            HoldLost: the step was taken back or taken over; the block was canceled.
        """
        terms = self._terms(session_id, on_error)
        async with await self._claim(Step, {"planId": plan_id}, terms) as step:
            yield step

    def steps(
        self,
        plan_id: str,
        *,
        session_id: str | None = None,
        on_error: OnError = "retry",
        until: Until = "complete",
    ) -> AsyncGenerator[Step, None]:
        """Yield claimed steps until the plan is complete or, with `until="idle"`, none is ready.

        Work on each step inside `async with step:`. The step is then given back immediately after
        an error, and the work is canceled if the claim is lost.

        Raises:
            NothingReady: the plan failed, or only failed steps are left.
            NotSubmitted: the work on a step ended without a result.
        """
        return self._each(Step, {"planId": plan_id}, self._terms(session_id, on_error), until)

    @asynccontextmanager
    async def job(
        self,
        run_id: str | None = None,
        *,
        model: str | None = None,
        session_id: str | None = None,
        on_error: OnError = "retry",
    ) -> AsyncIterator[Job]:
        """Claim the next job of a run, or of any run, for the duration of a block.

        `on_error` says what happens if the block raises an error: `retry` schedules another
        attempt, `fail` fails the job, and `keep` leaves it with this session until its lease ends.

        Raises:
            NothingReady: there is no job for this client now.
            NotSubmitted: the block ended without a result.
            HoldLost: another agent took the job over; the block was canceled.
        """
        terms = self._terms(session_id, on_error)
        async with await self._claim(Job, _without_none(runId=run_id, modelId=model), terms) as job:
            yield job

    def jobs(
        self,
        run_id: str | None = None,
        *,
        model: str | None = None,
        session_id: str | None = None,
        on_error: OnError = "retry",
        until: Until = "complete",
    ) -> AsyncGenerator[Job, None]:
        """Yield claimed jobs until the run is complete or, with `until="idle"`, none is ready.

        Without a run, yield jobs of every run; with a model, only jobs for this model. Work on each
        job in `async with job:`.

        Raises:
            NothingReady: a stage failed, or the run was canceled.
            NotSubmitted: the work on a job ended without a result.
        """
        wanted = _without_none(runId=run_id, modelId=model)
        return self._each(Job, wanted, self._terms(session_id, on_error), until)

    def _terms(self, session_id: str | None, on_error: OnError) -> ClaimTerms:
        return ClaimTerms(session_id or self.session_id, on_error, self._heartbeat_seconds)

    async def _each(
        self, kind: type[_ClaimT], wanted: Mapping[str, object], terms: ClaimTerms, until: Until
    ) -> AsyncGenerator[_ClaimT, None]:
        while True:
            try:
                claim = await self._claim(kind, wanted, terms, waits=until == "complete")
            except NothingReady as nothing:
                if nothing.status in COMPLETE:
                    return
                if _is_final(nothing.reply):
                    raise
                if until == "idle":
                    return
                await asyncio.sleep(nothing.reply["retryAfterSeconds"])
                continue
            async with claim.in_loop():
                yield claim

    async def _claim(
        self,
        kind: type[_ClaimT],
        wanted: Mapping[str, object],
        terms: ClaimTerms,
        *,
        waits: bool = False,
    ) -> _ClaimT:
        """Claim a step or job, or get back one that this session held before a restart.

        If nothing is ready and `waits` is set, wait at the server, unless waiting is useless.
        """
        named = {**wanted, "sessionId": terms.session_id}
        claims = self._claims[terms.session_id, str(named.get("planId") or named.get("runId"))]
        # Make one claim call at a time, because concurrent calls of a session would get the same
        # step.
        async with claims.lock:
            claims.held = [claim for claim in claims.held if claim.is_held]
            more = {"another": True} if claims.held or claims.waiting else {}
            reply = await self.call(kind.TOOL, **named, **more)
            if reply["status"] in READY:
                claims.held.append(claim := kind(self, reply, terms))
                return claim
        if not waits or not self._wait_seconds or _is_final(reply):
            raise NothingReady(reply)
        # Wait without the lock, so that other calls of the session can proceed.
        claims.waiting += 1
        try:
            seconds = self._wait_seconds
            reply = await self.call(kind.TOOL, **named, another=True, waitSeconds=seconds)
        finally:
            claims.waiting -= 1
        if reply["status"] not in READY:
            raise NothingReady(reply)
        claims.held.append(claim := kind(self, reply, terms))
        return claim


def _is_final(reply: Mapping[str, Any]) -> bool:
    """Return whether waiting is useless, because the work is complete or stopped."""
    # If no step is pending or in progress, only failed steps are left.
    has_only_failures = reply["status"] == "no_pending_steps" and not reply["inProgress"]
    return reply["status"] in COMPLETE | _STUCK or has_only_failures


def _without_none(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}
