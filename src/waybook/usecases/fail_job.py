"""fail_job: give a job back that does not work out."""

from pydantic import Field

from waybook.run.fail import fail_job as decide_failure
from waybook.run.limits import MAX_ATTEMPTS
from waybook.store import jobs
from waybook.usecases.arguments import Attempt, Id, Mutating, Text
from waybook.usecases.call import Body, Call, known
from waybook.usecases.run_call import job_not_found, locked_run, run_of_job
from waybook.usecases.run_views import job_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import moment, told


class FailJob(Mutating):
    job_id: Id
    attempt: Attempt
    error: Text
    retryable: bool = Field(description="tried again after a while, 4 times at most")


async def fail_job(call: Call, asked: FailJob) -> Body:
    """Have the job tried again after a while, or give it up."""
    run_id, job_id = await run_of_job(call, asked.job_id), known(asked.job_id).lower()
    async with locked_run(call, run_id, jobs.job_statement(job_id)) as held:
        job = jobs.first_job(held.found[0])
        if job is None:
            raise job_not_found()
        decision = decide_failure(
            held.run,
            held.chart,
            job,
            attempt=asked.attempt,
            error=asked.error,
            retryable=asked.retryable,
            moment=held.moment,
        )
        failed = decision.reply.job
        body = told(
            runId=run_id,
            **job_view(failed),
            attemptsLeft=max(0, MAX_ATTEMPTS - failed.tries),
            retryAt=moment(failed.ready_at) if failed.completed_at is None else None,
            next=take_job(run_id, "take another job"),
        )
        return await held.write(decision, body, job)


TOOL = Tool(
    name="fail_job",
    title="Give a job back",
    description="Say that a job you hold did not work out.",
    arguments=FailJob,
    output_schema=output_schema(jobId="string", status="string"),
    run=fail_job,
    profiles=RUNS,
)
