"""retry_failed: retry the failed jobs of a stage."""

from waybook.app.request.arguments import Id, MutatingArguments
from waybook.app.request.locking import lock_run
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.reply import next_job_call, stage_view
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.json_values import Body
from waybook.run.failure import retry_failed as decide_retry
from waybook.store.runs import jobs


class RetryFailed(MutatingArguments):
    run_id: Id
    stage_slug: Id
    step_key: Id | None = None


async def retry_failed(ctx: RequestContext, args: RetryFailed) -> Body:
    """Reset every failed job of a stage, or of one of its steps."""
    statement = jobs.failed_statement(id_or_nil(args.run_id), args.stage_slug, args.step_key)
    async with lock_run(ctx, args.run_id, statement) as locked:
        failed = [jobs.read_job(row) for row in locked.results[0]]
        named = (locked.run, locked.compiled_dag, args.stage_slug)
        decision = decide_retry(*named, failed, locked.decision_context, step_key=args.step_key)
        run = decision.run
        body: Body = {
            "runId": run.id,
            "retried": len(decision.reply.jobs),
            **stage_view(run, locked.compiled_dag, args.stage_slug),
            "next": next_job_call(run.id),
        }
        return await locked.write(decision, body, *failed)


TOOL = Tool(
    name="retry_failed",
    title="Retry failed jobs",
    description="Retry the failed jobs of a stage or of one step.",
    arguments=RetryFailed,
    output_schema=output_schema(retried="integer"),
    run=retry_failed,
    idempotent=True,
    profiles=RUNS,
)
