"""retry_failed: give what failed in a stage a fresh start."""

from waybook.run.retry import retry_failed as decide_retry
from waybook.store import jobs
from waybook.usecases.arguments import Id, Mutating
from waybook.usecases.call import Body, Call, known
from waybook.usecases.run_call import locked_run
from waybook.usecases.run_views import stage_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool


class RetryFailed(Mutating):
    run_id: Id
    stage_slug: Id
    step_key: Id | None = None


async def retry_failed(call: Call, asked: RetryFailed) -> Body:
    """Bring back every failed job of a stage, or of one of its steps."""
    statement = jobs.failed_statement(known(asked.run_id), asked.stage_slug, asked.step_key)
    async with locked_run(call, asked.run_id, statement) as held:
        failed = [jobs.read_job(row) for row in held.found[0]]
        named = (held.run, held.chart, asked.stage_slug)
        decision = decide_retry(*named, failed, held.moment, step_key=asked.step_key)
        run = decision.run
        body: Body = {
            "runId": run.id,
            "retried": len(decision.reply.jobs),
            **stage_view(run, held.chart, asked.stage_slug),
            "next": take_job(run.id),
        }
        return await held.write(decision, body, *failed)


TOOL = Tool(
    name="retry_failed",
    title="Retry what failed",
    description="Give the failed jobs of a stage, or of one step, a fresh start.",
    arguments=RetryFailed,
    output_schema=output_schema(retried="integer"),
    run=retry_failed,
    idempotent=True,
    profiles=RUNS,
)
