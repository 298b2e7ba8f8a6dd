"""submit_stage_feedback: what a person says of a completed stage; it opens the next one."""

from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.record.scopes import Scope
from waybook.run.start import give_feedback
from waybook.store import tenants
from waybook.usecases.arguments import Id, Loose, Mutating, Text
from waybook.usecases.call import Body, Call
from waybook.usecases.run_call import locked_run
from waybook.usecases.run_views import started_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, within_reply


class SubmitStageFeedback(Mutating):
    run_id: Id
    stage_slug: Id
    feedback: Text = Field(description="the person's words")
    models: Loose[list[Id]] | None = Field(None, description="for the next stage")
    #: What the map in a chat says of itself; an agent has no use for it.
    place: SkipJsonSchema[Literal["app"] | None] = None


async def submit_stage_feedback(call: Call, asked: SubmitStageFeedback) -> Body:
    """Keep the feedback, and start what it opens."""
    async with locked_run(call, asked.run_id, tenants.policy_statement()) as held:
        decision = give_feedback(
            held.run,
            held.chart,
            asked.stage_slug,
            asked.feedback,
            asked.models,
            held.moment._replace(policy=tenants.read_policy(held.found[-1])),
            place=asked.place,
        )
        run = decision.run
        over = following("get_run_progress", "see where the run stands", runId=run.id)
        body: Body = {
            "runId": run.id,
            "stageSlug": asked.stage_slug,
            "started": [started_view(stage, run) for stage in decision.reply.stages],
            "next": take_job(run.id) if decision.reply.stages else over,
        }
        return await held.write(decision, within_reply(body, ("started",), over))


TOOL = Tool(
    name="submit_stage_feedback",
    title="Give feedback on a stage",
    description="Pass on a person's feedback on a completed stage; it starts the next stage.",
    arguments=SubmitStageFeedback,
    output_schema=output_schema(runId="string", started="array"),
    run=submit_stage_feedback,
    profiles=RUNS,
    scopes=frozenset({Scope.RUN_WRITE, Scope.REVIEW}),
)
