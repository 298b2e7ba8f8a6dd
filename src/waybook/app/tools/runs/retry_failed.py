"""retry_failed: retry the failed jobs of a stage."""

from pydantic import Field

from waybook.app.request.arguments import Id, MutatingArguments, RunIdField, StageSlugField
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import next_job_call, stage_view
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.json_values import Body
from waybook.run.failure import retry_failed as decide_retry
from waybook.store.runs import jobs


class RetryFailed(MutatingArguments):
    run_id: RunIdField
    stage_slug: StageSlugField
    step_key: Id | None = Field(default=None, description="only jobs of this step")


async def retry_failed(ctx: RequestContext, args: RetryFailed) -> ToolReply:
    """Reset every failed job of a stage, or of one of its steps."""
    statement = jobs.failed_statement(id_or_nil(args.run_id), args.stage_slug, args.step_key)
    locked = LockedRun(ctx, args.run_id, statement)

    async def decide() -> RunProposal:
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
        return Proposal(decision, body, jobs=failed)

    return await update(locked, decide)


TOOL = Tool(
    name="retry_failed",
    title="Retry failed jobs",
    description="Retry the failed jobs of a stage or of one step. Then call get_next_job.",
    arguments=RetryFailed,
    output_schema=output_schema(retried="integer"),
    run=retry_failed,
    idempotent=True,
    profiles=RUNS,
)
