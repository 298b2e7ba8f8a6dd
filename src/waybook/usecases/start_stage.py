"""start_stage: begin a stage to which the way is open."""

from pydantic import Field

from waybook.run.start import begin_stage
from waybook.usecases.arguments import Id, Loose, Mutating
from waybook.usecases.call import Body, Call
from waybook.usecases.run_call import locked_run
from waybook.usecases.run_views import stage_view, started_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, within_reply


class StartStage(Mutating):
    run_id: Id
    stage_slug: Id
    models: Loose[list[Id]] | None = Field(None, description="default: those of the stage before")


async def start_stage(call: Call, asked: StartStage) -> Body:
    """Start a stage; one that has been started stays as it is."""
    async with locked_run(call, asked.run_id) as held:
        decision = begin_stage(held.run, held.chart, asked.stage_slug, asked.models, held.moment)
        run = decision.run
        body: Body = {
            "runId": run.id,
            **stage_view(run, held.chart, asked.stage_slug),
            "started": [started_view(stage, run) for stage in decision.reply.stages],
            "next": take_job(run.id),
        }
        look = following("get_run_progress", "all that was started", runId=run.id)
        return await held.write(decision, within_reply(body, ("started",), look))


TOOL = Tool(
    name="start_stage",
    title="Start a stage",
    description="Start a stage whose transition is open; feedback usually does that by itself.",
    arguments=StartStage,
    output_schema=output_schema(runId="string", status="string"),
    run=start_stage,
    idempotent=True,
    profiles=RUNS,
)
