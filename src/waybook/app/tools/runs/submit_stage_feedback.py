"""submit_stage_feedback: a person's feedback on a completed stage; it opens the next stage."""

from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request.arguments import (
    LenientJson,
    Models,
    MutatingArguments,
    RunIdField,
    StageSlugField,
    Text,
)
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import fit_reply, next_call, next_job_call, started_view
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.core.decision_context import Scope
from waybook.json_values import Body
from waybook.run.start import give_feedback
from waybook.store.accounts import accounts


class SubmitStageFeedback(MutatingArguments):
    run_id: RunIdField
    stage_slug: StageSlugField
    feedback: Text = Field(description="the person's words")
    models: LenientJson[Models] | None = Field(
        default=None, description="model names for the next stage"
    )
    place: SkipJsonSchema[Literal["app"] | None] = None


async def submit_stage_feedback(ctx: RequestContext, args: SubmitStageFeedback) -> ToolReply:
    """Store the feedback, and start the stages that it opens."""
    locked = LockedRun(ctx, args.run_id, accounts.policy_statement())

    async def decide() -> RunProposal:
        decision = give_feedback(
            locked.run,
            locked.compiled_dag,
            args.stage_slug,
            args.feedback,
            args.models,
            locked.decision_context._replace(policy=accounts.read_policy(locked.results[-1])),
            place=args.place,
        )
        run = decision.run
        over = next_call("get_run_progress", "See the run's progress.", runId=run.id)
        body: Body = {
            "runId": run.id,
            "stageSlug": args.stage_slug,
            "started": [started_view(stage, run) for stage in decision.reply.stages],
            "next": next_job_call(run.id) if decision.reply.stages else over,
        }
        return Proposal(decision, fit_reply(body, ("started",), over))

    return await update(locked, decide)


TOOL = Tool(
    name="submit_stage_feedback",
    title="Give feedback on a stage",
    description=(
        "Pass on a person's feedback on a completed stage, which starts the next stage. Then call "
        "get_next_job."
    ),
    arguments=SubmitStageFeedback,
    output_schema=output_schema(runId="string", started="array"),
    run=submit_stage_feedback,
    profiles=RUNS,
    scopes=frozenset({Scope.RUN_WRITE, Scope.REVIEW}),
)
