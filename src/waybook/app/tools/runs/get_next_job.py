"""get_next_job: claim the next job of a run, or return why no job is available."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

import orjson

from waybook.app.context.job import load_job_context
from waybook.app.request import reply as replies
from waybook.app.request.arguments import Id, ListOf, MutatingArguments, RunIdField, optional
from waybook.app.request.caller import run_url
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool
from waybook.app.request.wait_queue import Nothing, Subject
from waybook.app.request.waiting import (
    RETRY_AFTER_PERSON_SECONDS,
    RETRY_AFTER_WORK_SECONDS,
    Attempt,
    WaitSeconds,
    answer_or_wait,
)
from waybook.core.events import RUN
from waybook.dag.model import JobStatus, JobType, RunState
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.run.model import Job, Run, RunDecision
from waybook.run.next_job import AwaitingFeedback, JobReady, NextJob, StageFailed, next_job
from waybook.store.driver.queries import Statement, first_value
from waybook.store.runs import jobs
from waybook.store.runs.jobs import JobRequest

#: Maximum number of jobs that one call tries to claim. It marks a job as failed if no attempts are
#: left, and then tries the next job.
_MAX_CLAIM_ATTEMPTS = 50
_MAX_OPEN_LISTED = 40
_JOB_GIVEN_UP: Final[Body] = {}


class _GetNextJob(MutatingArguments):
    run_id: RunIdField | None = optional("default: any run")
    model_id: Id | None = optional("only jobs for this model; default: any")
    job_types: ListOf[Literal[JobType.PLAN, JobType.EXECUTE]] | None = optional(
        "only jobs of these types"
    )
    another: bool = optional("claim a second job and keep the one you hold", default=False)
    wait_seconds: WaitSeconds | None = optional("if no job is free, wait up to this many seconds")


@Tool(
    title="Claim the next job",
    description=(
        "Claim a job of a run, or get the job you hold again: prompt, inputs, documents to write. "
        "Then call submit_job_result with its jobId and attempt. status: job_ready; nothing_ready "
        "(use waitSeconds); awaiting_feedback (a person decides); stage_failed; run_complete; "
        "run_canceled."
    ),
    reply={"status": "string"},
    profiles=RUNS,
)
async def get_next_job(ctx: RequestContext, args: _GetNextJob) -> ToolReply:
    return await answer_or_wait(ctx, args.wait_seconds, partial(_try_answer, ctx, args))


async def _try_answer(ctx: RequestContext, args: _GetNextJob, attempt: Attempt) -> ToolReply:
    types = {*(args.job_types or ())}
    job_type = types.pop() if len(types) == 1 else None
    wanted = job_request(ctx, args.model_id, job_type, another=args.another)
    run_id = args.run_id
    for _ in range(_MAX_CLAIM_ATTEMPTS):
        if args.run_id is None:
            (rows,) = await ctx.read(jobs.SQL["run_with_claimable_job"](**wanted.values))
            run_id = first_value(rows)
        if run_id is None:
            break
        locked = LockedRun(ctx, run_id, unless_cached=partial(_claim_statements, run_id, wanted))
        reply = await update(locked, partial(_claim, locked, wanted, attempt))
        if reply is not _JOB_GIVEN_UP:
            return reply
    return await _nothing_anywhere(ctx, args, wanted, attempt)


def job_request(
    ctx: RequestContext, model: str | None, job_type: str | None = None, *, another: bool = False
) -> JobRequest:
    return JobRequest(
        model=model,
        job_type=job_type,
        lease_seconds=ctx.services.lease.total_seconds(),
        holder=None if another else ctx.actor().holder,
    )


def _claim_statements(run_id: str, wanted: JobRequest) -> tuple[Statement, Statement]:
    held = jobs.SQL["held_job"](run_id=run_id, **wanted.values)
    return held, jobs.claimable_statement(run_id, wanted)


async def take_following_job(
    locked: LockedRun, proposal: RunProposal, model: str | None
) -> RunProposal:
    """Store the outcome of the caller's job, then claim the next job for the same model."""
    wanted = job_request(locked.ctx, model)
    attempt = Attempt(is_last=True)
    statements = _claim_statements(locked.run.id, wanted)
    for _ in range(_MAX_CLAIM_ATTEMPTS):
        await locked.write_and_reload(proposal, *statements)
        proposal = await _claim_job(locked, wanted, attempt)
        if proposal.body is not _JOB_GIVEN_UP:
            return proposal
    return Proposal(RunDecision(None, locked.run), _nothing((), locked.run))


async def _claim(locked: LockedRun, wanted: JobRequest, attempt: Attempt) -> RunProposal | None:
    if not locked.is_cached:
        return await _claim_job(locked, wanted, attempt)
    claim = await prepare_claim(locked, wanted)
    return claim() if claim and await locked.begin_turn() else None


async def _claim_job(locked: LockedRun, wanted: JobRequest, attempt: Attempt) -> RunProposal:
    """Decide which job the caller gets, and build the reply."""
    mine, free = (jobs.first_job(rows) for rows in locked.results)
    open_jobs: Sequence[Any] = ()
    free_in: float | None = None
    if mine is None and free is None:
        open_jobs, gap = await locked.send(
            jobs.SQL["open_jobs"](run_id=locked.run.id, most=_MAX_OPEN_LISTED),
            jobs.SQL["seconds_until_claimable"](run_id=locked.run.id, **wanted.values),
        )
        free_in = first_value(gap)
    decision = next_job(
        locked.run, locked.dag, locked.context, held=mine, candidate=free, is_open=bool(open_jobs)
    )
    before, reply = (free,) if free else (), decision.reply
    if reply is None:
        return Proposal(decision, _JOB_GIVEN_UP, jobs=before, is_answer=False)
    subject = _subject(locked.run.id, wanted)
    if reply is RunState.IN_PROGRESS:
        attempt.nothing = Nothing(subject, RETRY_AFTER_WORK_SECONDS, free_in)
    elif isinstance(reply, AwaitingFeedback | StageFailed):
        attempt.nothing = Nothing(subject, RETRY_AFTER_PERSON_SECONDS)
    else:
        attempt.nothing = None
    body = {**await _reply(locked, reply, open_jobs), **attempt.retry_advice()}
    return Proposal(decision, body, jobs=before, is_answer=attempt.is_answer)


def _subject(run_id: str | None, wanted: JobRequest) -> Subject:
    return Subject(RUN, run_id, (wanted.model, wanted.job_type))


async def _reply(locked: LockedRun, reply: NextJob, open_jobs: Sequence[Any]) -> Body:
    run = locked.run
    match reply:
        case JobReady():
            return await _ready_reply(locked, reply)
        case AwaitingFeedback(stages):
            call = replies.wait_for_feedback_call(run.id)
            return {"status": "awaiting_feedback", **_stage(locked, stages[0]), "next": call}
        case StageFailed(stage, steps):
            call = replies.wait_for_job_call(
                run.id, "Wait: a person retries the failed jobs, not you."
            )
            failed: Body = {"status": "stage_failed", **_stage(locked, stage)}
            failed |= {"failedSteps": [*steps], "next": call}
            look = next_call("get_run_progress", "Get the full list.", runId=run.id, detail=True)
            return replies.fit_reply(failed, ("failedSteps",), look)
        case RunState.COMPLETED:
            status, ended = "run_complete", Body(usage=run.usage.as_reply())
            why = "See the documents of the run."
        case RunState.CANCELED:
            status, ended = "run_canceled", replies.cancellation_view(run)
            why = "See what the run produced."
        case _:
            return _nothing(open_jobs, run)
    call = next_call("get_run_progress", why, runId=run.id)
    return {"status": status, "runId": run.id, **ended, "next": call}


def _stage(locked: LockedRun, slug: str) -> Body:
    page = run_url(locked.run.id, locked.ctx.services.base_url)
    return {"runId": locked.run.id, "stageSlug": slug, "runUrl": page}


def _nothing(open_jobs: Sequence[Any], run: Run) -> Body:
    running: list[Json] = [
        non_empty(
            stageSlug=job_group.stage,
            stepKey=job_group.step_key,
            status=job_group.status,
            modelId=job_group.model,
            jobs=job_group.jobs,
            readyAt=format_time(job_group.ready_at)
            if job_group.status == JobStatus.RETRYING
            else None,
        )
        for job_group in open_jobs
    ]
    why = "Wait for a free job: others still work, or jobs are not due."
    look = next_call("get_run_progress", "See all open jobs.", runId=run.id)
    counted = sum(job_group.jobs for job_group in open_jobs)
    units = sum(step.total - step.done - step.failed for step in run.steps.values())
    more: Json = {"left": {"jobs": units - counted}, "get": look} if units > counted else None
    body = non_empty(status="nothing_ready", runId=run.id, open=running, cut=more)
    body["next"] = replies.wait_for_job_call(run.id, why)
    return replies.fit_reply(body, ("open",), look)


async def _nothing_anywhere(
    ctx: RequestContext, args: _GetNextJob, wanted: JobRequest, attempt: Attempt
) -> ToolReply:
    waiting = jobs.SQL["seconds_until_claimable"](run_id=None, **wanted.values)
    locked = OpenTransaction(ctx, waiting)

    # The answer is stored even though no run is locked, so that a repeated call gets the same
    # answer.
    async def decide() -> Proposal[Written]:
        subject, free_in = _subject(args.run_id, wanted), first_value(locked.results[0])
        attempt.nothing = Nothing(subject, RETRY_AFTER_WORK_SECONDS, free_in)
        body: Body = {
            "status": "nothing_ready",
            **({"runId": args.run_id} if args.run_id else {}),
            "open": [],
            "next": next_call("list_dags", "No job is free. List the runs, or start one."),
            **attempt.retry_advice(),
        }
        return Proposal(Written([]), body, is_answer=attempt.is_answer)

    return await update(locked, decide)


async def _ready_reply(locked: LockedRun, ready: JobReady) -> Body:
    job = ready.job
    step = locked.dag.graphs[job.stage].steps[job.step_key]
    args: Body = {"jobId": job.id, "attempt": job.attempt, "takeNext": True}
    head = non_empty(
        status="job_ready",
        runId=locked.run.id,
        runName=locked.run.name,
        stageSlug=job.stage,
        stepKey=job.step_key,
        stepName=step.name,
        jobId=job.id,
        jobType=str(job.job_type),
        modelId=job.model,
        attempt=job.attempt,
        leaseSeconds=round(locked.ctx.services.lease.total_seconds()),
        resumed=ready.resumed or None,
        next=next_call("submit_job_result", "Submit the result.", **args),
    )
    context = await load_job_context(locked, job)
    return {
        **head,
        **await context.packet(replies.MAX_COMPACT_REPLY_BYTES - len(orjson.dumps(head))),
    }


async def prepare_claim(
    locked: LockedRun, wanted: JobRequest, *, after: Job | None = None
) -> Callable[[], RunProposal | None] | None:
    """Reserve a free job of the cached run, in the stage of the job `after`, and read its inputs.

    Return a function that claims the job when the call has its turn. Return None if the call must
    lock the run instead; the returned function can also return None for this reason.
    """
    job = await locked.reserve(wanted, besides=after.id if after else None)
    if job is None or locked.cached_run is None or (after and after.stage != job.stage):
        return None
    regenerated = locked.cached_run.documents.regenerated
    # The reply already needs the number of the attempt that begins with the claim.
    body = await _ready_reply(locked, JobReady(job._replace(attempt=job.attempt + 1)))

    def claim() -> "RunProposal | None":  # The union would be evaluated in every call.
        cached = locked.cached_run
        # If a document was regenerated after the reply was built, the reply may be outdated.
        if cached is None or cached.documents.regenerated > regenerated:
            return None
        if not locked.can_claim(job, wanted):
            return None
        dag, context = locked.dag, locked.context
        decision = next_job(locked.run, dag, context, held=None, candidate=job, is_open=False)
        if not isinstance(decision.reply, JobReady):
            return None
        return Proposal(decision, body, jobs=(job,))

    return claim
