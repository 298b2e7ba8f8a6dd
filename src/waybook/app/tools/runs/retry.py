"""Do work of a run again, or end the run."""

from collections.abc import Sequence

from pydantic import Field

from waybook.app.request.arguments import Id, MutatingArguments, RunIdField, StageSlugField, Text
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import (
    cancellation_view,
    job_view,
    next_call,
    next_job_call,
    stage_view,
)
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.tool import RUNS, Tool
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body
from waybook.run.failure import cancel_run as decide_cancellation
from waybook.run.failure import regenerate
from waybook.run.failure import retry_failed as decide_retry
from waybook.run.made_from import jobs_after
from waybook.run.model import Job
from waybook.run.status import run_state
from waybook.store.runs import jobs
from waybook.store.runs.rows import DocumentJobRow, DocumentRunRow


class _RetryFailed(MutatingArguments):
    run_id: RunIdField
    stage_slug: StageSlugField
    step_key: Id | None = Field(default=None, description="only jobs of this step")


@Tool(
    title="Retry failed jobs",
    description="Retry the failed jobs of a stage or of one step. Then call get_next_job.",
    reply={"retried": "integer"},
    idempotent=True,
    profiles=RUNS,
)
async def retry_failed(ctx: RequestContext, args: _RetryFailed) -> ToolReply:
    statement = jobs.failed_statement(id_or_nil(args.run_id), args.stage_slug, args.step_key)
    locked = LockedRun(ctx, args.run_id, statement)

    async def decide() -> RunProposal:
        failed = [jobs.read_job(row) for row in locked.results[0]]
        named = (locked.run, locked.compiled_dag, args.stage_slug)
        decision = decide_retry(*named, failed, locked.decision_context, step_key=args.step_key)
        run = decision.run
        body: Body = {
            "runId": run.id,
            "retried": len(decision.reply),
            **stage_view(run, locked.compiled_dag, args.stage_slug),
            "next": next_job_call(run.id),
        }
        return Proposal(decision, body, jobs=failed)

    return await update(locked, decide)


class _RegenerateDocument(MutatingArguments):
    document_id: Id = Field(description="resourceId from get_run_progress, or documentId")
    following: bool = Field(
        default=False, description="also regenerate all documents made from it, in order"
    )


@Tool(
    title="Regenerate a document",
    description="Create a job that writes a new version of a document. Then call get_next_job.",
    reply={"jobId": "string"},
    profiles=RUNS,
)
async def regenerate_document(ctx: RequestContext, args: _RegenerateDocument) -> ToolReply:
    rows: Sequence[DocumentRunRow]
    (rows,) = await ctx.read(jobs.run_of_document_statement(id_or_nil(args.document_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    run_id, document_id = rows[0].run_id, rows[0].document_id
    later = jobs.versions_statement(run_id, always=True), jobs.finished_jobs_statement(run_id)
    statement = jobs.document_job_statement(run_id, document_id)
    locked = LockedRun(ctx, run_id, statement, *(later if args.following else ()))

    async def decide() -> RunProposal:
        latest: DocumentJobRow = locked.results[0][0]
        (job_rows,) = await locked.send(jobs.job_statement(latest.job_id))
        job, dag = jobs.read_job(job_rows[0]), locked.compiled_dag
        following: list[tuple[Job, str]] = []
        if args.following:
            version_rows, finished_rows = locked.results[1:]
            by_id = {row.id: jobs.read_job(row) for row in finished_rows}
            versions = jobs.read_versions(version_rows)
            after = jobs_after(dag, versions, job.id)
            following = [(by_id[old], made) for old, made in after.items() if old in by_id]
        decision = regenerate(
            locked.run,
            dag,
            job,
            latest.document_id,
            locked.decision_context,
            following=following,
        )
        body: Body = {
            "runId": run_id,
            **job_view(decision.reply.job),
            **({"following": decision.reply.following} if args.following else {}),
            "next": next_job_call(run_id, "Claim the job that regenerates it."),
        }
        return Proposal(decision, body, jobs=(job, *(old for old, _ in following)))

    return await update(locked, decide)


class _CancelRun(MutatingArguments):
    run_id: RunIdField
    reason: Text = Field(description="why it ends; recorded in the audit")


@Tool(
    title="Cancel a run",
    description=(
        "End a run for good. Nothing is deleted; its open jobs are no longer handed out, and "
        "results of jobs still held are refused with RUN_CANCELED. Cannot be undone."
    ),
    reply={"runId": "string", "status": "string"},
    destructive=True,
    profiles=RUNS,
)
async def cancel_run(ctx: RequestContext, args: _CancelRun) -> ToolReply:
    locked = LockedRun(ctx, args.run_id)

    async def decide() -> RunProposal:
        decision = decide_cancellation(
            locked.run, locked.compiled_dag, args.reason, locked.decision_context
        )
        run = decision.run
        body: Body = {
            "runId": run.id,
            "status": str(run_state(run, locked.compiled_dag)),
            **cancellation_view(run),
            "openJobs": decision.reply,
            "next": next_call("get_run_progress", "See what the run produced.", runId=run.id),
        }
        return Proposal(decision, body)

    return await update(locked, decide)
