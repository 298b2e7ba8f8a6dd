"""start_stage: start a stage that a person's feedback has opened."""

from pydantic import Field

from waybook.app.request.arguments import (
    LenientJson,
    Models,
    MutatingArguments,
    RunIdField,
    StageSlugField,
)
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import fit_reply, next_call, next_job_call, stage_view, started_view
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.json_values import Body
from waybook.run.start import start_open_stage


class StartStage(MutatingArguments):
    run_id: RunIdField
    stage_slug: StageSlugField
    models: LenientJson[Models] | None = Field(
        default=None, description="model names; default: those of the previous stage"
    )


async def start_stage(ctx: RequestContext, args: StartStage) -> ToolReply:
    """Start a stage. If the stage was already started, nothing changes."""
    locked = LockedRun(ctx, args.run_id)

    async def decide() -> RunProposal:
        decision = start_open_stage(
            locked.run, locked.compiled_dag, args.stage_slug, args.models, locked.decision_context
        )
        run = decision.run
        body: Body = {
            "runId": run.id,
            **stage_view(run, locked.compiled_dag, args.stage_slug),
            "started": [started_view(stage, run) for stage in decision.reply.stages],
            "next": next_job_call(run.id),
        }
        look = next_call("get_run_progress", "See everything that was started.", runId=run.id)
        return Proposal(decision, fit_reply(body, ("started",), look))

    return await update(locked, decide)


TOOL = Tool(
    name="start_stage",
    title="Start a stage",
    description="Start a stage that is ready. submit_stage_feedback usually does that by itself.",
    arguments=StartStage,
    output_schema=output_schema(runId="string", status="string"),
    run=start_stage,
    idempotent=True,
    profiles=RUNS,
)
