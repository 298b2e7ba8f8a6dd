"""cancel_run: end a run for good."""

from pydantic import Field

from waybook.app.request.arguments import MutatingArguments, RunIdField, Text
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import cancellation_view, next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.json_values import Body
from waybook.run.cancel import cancel_run as decide_cancellation
from waybook.run.status import run_state


class CancelRun(MutatingArguments):
    run_id: RunIdField
    reason: Text = Field(description="why it ends; recorded in the audit")


async def cancel_run(ctx: RequestContext, args: CancelRun) -> ToolReply:
    """Cancel a run. Its rows and documents stay readable."""
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
            "openJobs": decision.reply.open_units,
            "next": next_call("get_run_progress", "See what the run produced.", runId=run.id),
        }
        return Proposal(decision, body)

    return await update(locked, decide)


TOOL = Tool(
    name="cancel_run",
    title="Cancel a run",
    description=(
        "End a run for good. Nothing is deleted; its open jobs are no longer handed out, and "
        "results of jobs still held are refused with RUN_CANCELED. Cannot be undone."
    ),
    arguments=CancelRun,
    output_schema=output_schema(runId="string", status="string"),
    run=cancel_run,
    destructive=True,
    profiles=RUNS,
)
