"""Tools that end a job: submit its result, or report that it failed."""

from pydantic import Field

from waybook.app.context.job import document_text
from waybook.app.request import arguments as arg
from waybook.app.request.access import require_job, run_of_job
from waybook.app.request.caller import run_url
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.plan_arguments import UsageArgument, to_usage
from waybook.app.request.reply import (
    awaits_feedback,
    fit_reply,
    job_view,
    next_after_job,
    next_call,
    next_job_call,
    stage_view,
)
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.services import Services
from waybook.app.request.tool import RUNS, Tool
from waybook.app.tools.runs.get_next_job import (
    claim_prepared_job,
    job_request,
    prepare_claim,
    take_following_job,
)
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.run.draft import RunDecision
from waybook.run.failure import fail_job as decide_failure
from waybook.run.model import MAX_ATTEMPTS, CompiledDag, Job
from waybook.run.submit import JobDone, Submission, SubmittedDocument, submit_job
from waybook.store.driver.queries import Row, first_column
from waybook.store.runs import jobs


class DocumentArgument(arg.Nested):
    content: arg.AnyJson = Field(description="text or JSON")
    document_key: arg.Id | None = arg.optional("which document of the job")
    model_id: arg.Id | None = arg.optional("model it is for, if the job names several")


class _SubmitJobResult(arg.MutatingArguments):
    job_id: arg.JobIdField
    attempt: arg.Attempt | None = arg.optional("from get_next_job")
    documents: arg.LenientJson[list[DocumentArgument]] = Field(
        min_length=1, description="the documents that the job produces"
    )
    continues: bool = arg.optional(
        "true: this is only a part; the rest becomes another job", default=False
    )
    usage: UsageArgument = None
    take_next: bool = arg.optional("also claim the next job for this model", default=False)


@Tool(
    title="Submit a job's result",
    description=(
        "Complete your job; then call get_next_job, or set takeNext to get the next job in the "
        "reply. Error STALE_ATTEMPT: another agent took the job over; your result is stored, but "
        "does not count: call get_next_job."
    ),
    reply={"runId": "string", "jobStatus": "string"},
    profiles=RUNS,
)
async def submit_job_result(ctx: RequestContext, args: _SubmitJobResult) -> ToolReply:
    numbered = enumerate(args.documents, 1)
    arg.check_result_size(**{f"document {n}": document.content for n, document in numbered})
    documents = tuple(
        SubmittedDocument(document_text(sent.content), sent.document_key, sent.model_id)
        for sent in args.documents
    )
    submission = Submission(documents, args.attempt, args.continues, to_usage(args.usage))
    run_id, job_id = await run_of_job(ctx, args.job_id), args.job_id
    locked = LockedRun(ctx, run_id, unless_cached=lambda: (jobs.SQL["load_job"](job_id=job_id),))

    async def decide() -> RunProposal | None:
        if locked.is_cached:
            return await _decide_on_cached(locked, job_id, submission, take_next=args.take_next)
        job = require_job(locked.results[0])
        parts, version = await _before(locked, job)
        decision = submit_job(
            locked.run,
            locked.compiled_dag,
            job,
            submission,
            locked.decision_context,
            parts=parts,
            version=version,
        )
        body = _reply(decision, locked.compiled_dag, ctx.services)
        proposal = Proposal(decision, body, jobs=(job,))
        if not args.take_next or decision.refusal is not None:
            return proposal
        following = await take_following_job(locked, proposal, job.model)
        return following._replace(body=_with_next(body, following.body))

    return await update(locked, decide)


async def _decide_on_cached(
    locked: LockedRun, job_id: str, submission: Submission, *, take_next: bool
) -> RunProposal | None:
    """Decide on the cached run. Return None if the run must be locked first."""
    job, following = locked.held_job(job_id), None
    if job is None or job.continues is not None or job.document is not None:
        return None
    wanted = job_request(locked.ctx, job.model)
    if take_next:
        following = await prepare_claim(locked, wanted, besides=job_id)
        if following is None or following.job.stage != job.stage:
            return None
    if not await locked.begin_turn() or locked.held_job(job_id) != job:
        return None
    dag = locked.compiled_dag
    decision = submit_job(locked.run, dag, job, submission, locked.decision_context)
    if decision.refusal is not None:
        return None
    body = _reply(decision, dag, locked.ctx.services)
    proposal: RunProposal = Proposal(decision, body, jobs=(job,))
    if following is None:
        return proposal
    locked.defer(proposal)
    claimed = claim_prepared_job(locked, wanted, following)
    return claimed._replace(body=_with_next(body, claimed.body)) if claimed else None


def _with_next(submitted: Body, following: Body) -> Body:
    left_out = {"runId", "jobStatus", "status", "next"}
    outcome: Json = {name: value for name, value in submitted.items() if name not in left_out}
    kept = {"runId": submitted["runId"], "jobStatus": submitted["jobStatus"]}
    return {**kept, **following, "submitted": outcome}


async def _before(locked: LockedRun, job: Job) -> tuple[list[str], int]:
    parts: list[str] = []
    if job.continues is not None:
        (part_rows,) = await locked.send(jobs.SQL["parts"](job_id=job.id))
        parts = first_column(part_rows)
    if job.document is None:
        return parts, 1
    latest: list[Row]
    (latest,) = await locked.send(
        jobs.SQL["document_job"](run_id=locked.run.id, document_id=job.document)
    )
    return parts, latest[0].version + 1


def _reply(decision: RunDecision[JobDone], compiled_dag: CompiledDag, services: Services) -> Body:
    run, done = decision.run, decision.reply
    waits = awaits_feedback(run, compiled_dag, done.job.stage)
    following_job = done.continuation
    body = non_empty(
        runId=run.id,
        **{**job_view(done.job), "jobStatus": str(done.job.status)},
        documentIds=[*done.documents],
        continuation=job_view(following_job) if following_job else None,
        stage=stage_view(run, compiled_dag, done.job.stage),
        runComplete=run.completed_at is not None,
        runUrl=run_url(run.id, services.base_url) if waits else None,
        next=next_after_job(run, compiled_dag, done.job.stage),
    )
    look = next_call("get_run_progress", "See the documents of the run.", runId=run.id, detail=True)
    return fit_reply(body, ("documentIds",), look)


class _FailJob(arg.MutatingArguments):
    job_id: arg.JobIdField
    attempt: arg.Attempt | None = arg.optional("from get_next_job")
    error: arg.Text = Field(description="what went wrong")
    retryable: bool = Field(description="true: another attempt may succeed; at most 4 are made")


@Tool(
    title="Fail a job",
    description="Report that you cannot complete your job. Then call get_next_job.",
    reply={"jobId": "string", "status": "string"},
    profiles=RUNS,
)
async def fail_job(ctx: RequestContext, args: _FailJob) -> ToolReply:
    run_id, job_id = await run_of_job(ctx, args.job_id), args.job_id
    locked = LockedRun(ctx, run_id, jobs.SQL["load_job"](job_id=job_id))

    async def decide() -> RunProposal:
        job = require_job(locked.results[0])
        decision = decide_failure(
            locked.run,
            locked.compiled_dag,
            job,
            attempt=args.attempt,
            error=args.error,
            retryable=args.retryable,
            context=locked.decision_context,
        )
        failed = decision.reply
        is_retried = failed.completed_at is None
        body = non_empty(
            runId=run_id,
            **job_view(failed),
            attemptsLeft=MAX_ATTEMPTS - failed.tries if is_retried else 0,
            retryAt=format_time(failed.ready_at) if is_retried else None,
            next=next_job_call(run_id, "Claim another job."),
        )
        return Proposal(decision, body, jobs=(job,))

    return await update(locked, decide)
