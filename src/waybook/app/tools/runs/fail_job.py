"""fail_job: report that a job failed."""

from pydantic import Field

from waybook.app.request.arguments import Attempt, Id, MutatingArguments, Text
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import job_view, next_job_call
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.run_access import job_not_found, run_of_job
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.json_values import format_time, non_empty
from waybook.run.failure import fail_job as decide_failure
from waybook.run.model import MAX_ATTEMPTS
from waybook.store.runs import jobs


class FailJob(MutatingArguments):
    job_id: Id = Field(description="id of the job")
    attempt: Attempt | None = Field(default=None, description="from get_next_job")
    error: Text = Field(description="what went wrong")
    retryable: bool = Field(description="true: another attempt may succeed; at most 4 are made")


async def fail_job(ctx: RequestContext, args: FailJob) -> ToolReply:
    """Schedule the job for a retry, or mark it as permanently failed."""
    run_id, job_id = await run_of_job(ctx, args.job_id), id_or_nil(args.job_id).lower()
    locked = LockedRun(ctx, run_id, jobs.job_statement(job_id))

    async def decide() -> RunProposal:
        job = jobs.first_job(locked.results[0])
        if job is None:
            raise job_not_found()
        decision = decide_failure(
            locked.run,
            locked.compiled_dag,
            job,
            attempt=args.attempt,
            error=args.error,
            retryable=args.retryable,
            context=locked.decision_context,
        )
        failed = decision.reply.job
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


TOOL = Tool(
    name="fail_job",
    title="Fail a job",
    description="Report that you cannot complete your job. Then call get_next_job.",
    arguments=FailJob,
    output_schema=output_schema(jobId="string", status="string"),
    run=fail_job,
    profiles=RUNS,
)
