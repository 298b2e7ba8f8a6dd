"""fail_job: give a job back that does not work out."""

from pydantic import Field

from waybook.run.fail import fail_job as decide_failure
from waybook.run.limits import MAX_ATTEMPTS
from waybook.store import jobs
from waybook.usecases.arguments import Attempt, Id, MutatingArguments, Text
from waybook.usecases.call import Body, RequestContext, id_or_nil
from waybook.usecases.run_call import job_not_found, lock_run, run_of_job
from waybook.usecases.run_views import job_view, next_job_call
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import format_time, non_empty


class FailJob(MutatingArguments):
    job_id: Id
    attempt: Attempt
    error: Text
    retryable: bool = Field(description="tried again after a while, 4 times at most")


async def fail_job(ctx: RequestContext, asked: FailJob) -> Body:
    """Have the job tried again after a while, or give it up."""
    run_id, job_id = await run_of_job(ctx, asked.job_id), id_or_nil(asked.job_id).lower()
    async with lock_run(ctx, run_id, jobs.job_statement(job_id)) as locked:
        job = jobs.first_job(locked.results[0])
        if job is None:
            raise job_not_found()
        decision = decide_failure(
            locked.run,
            locked.compiled_dag,
            job,
            attempt=asked.attempt,
            error=asked.error,
            retryable=asked.retryable,
            context=locked.decision_context,
        )
        failed = decision.reply.job
        body = non_empty(
            runId=run_id,
            **job_view(failed),
            attemptsLeft=max(0, MAX_ATTEMPTS - failed.tries),
            retryAt=format_time(failed.ready_at) if failed.completed_at is None else None,
            next=next_job_call(run_id, "take another job"),
        )
        return await locked.write(decision, body, job)


TOOL = Tool(
    name="fail_job",
    title="Give a job back",
    description="Say that a job you hold did not work out.",
    arguments=FailJob,
    output_schema=output_schema(jobId="string", status="string"),
    run=fail_job,
    profiles=RUNS,
)
