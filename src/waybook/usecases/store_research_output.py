"""store_research_output: keep the deliverable of a plan."""

from pydantic import Field

from waybook.plan.media_types import text_type
from waybook.plan.output import Kept, NewOutput, Output, store_output
from waybook.plan.states import CLOSED_PLAN
from waybook.record.moment import Json
from waybook.store import outputs, plans
from waybook.usecases.arguments import Id, Mutating, Name
from waybook.usecases.call import Body, Call, Held, known
from waybook.usecases.output_views import after_the_last_step, output_view
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RESEARCH, Tool
from waybook.usecases.views import following


class StoreResearchOutput(Mutating):
    plan_id: Id
    media_type: Name = Field(description="text/markdown, text/csv, application/json …")
    title: Name = Field(description="the same again is the next version")
    content: str = Field(min_length=1)


async def store_research_output(call: Call, asked: StoreResearchOutput) -> Body:
    """Keep a deliverable as the next version of its title; the same again changes nothing."""
    new = NewOutput(
        media_type=text_type(asked.media_type), title=asked.title, content=asked.content
    )
    plan_id = known(asked.plan_id)
    there = (outputs.outputs_statement(plan_id), plans.brief_statement(plan_id))
    wanted = call.locked(*there, plan_id=plan_id, review=False)
    async with wanted as held:
        before = outputs.read_outputs(held.found[0])
        decision = store_output(held.plan, new, before, held.moment)
        return await held.write(decision, _reply(held, decision.reply, before))


def _reply(held: Held, kept: Kept, before: list[Output]) -> Body:
    output, base_url = kept.output, held.call.house.base_url
    return {
        "planId": held.plan.id,
        "status": "stored" if kept.is_new else "unchanged",
        **output_view(output),
        "resource": f"waybook://outputs/{output.id}",
        "downloadUrl": f"{base_url}/api/outputs/{output.id}",
        "next": _next(held, [*before, output]),
    }


def _next(held: Held, there: list[Output]) -> Json:
    if held.plan.status not in CLOSED_PLAN:
        return following("get_next_step", "go on with the plan", planId=held.plan.id)
    ((*_, media_type, _, _, skill_execution),) = held.found[1]
    return after_the_last_step(held.plan.id, media_type, skill_execution, there)


TOOL = Tool(
    name="store_research_output",
    title="Store the deliverable",
    description="Keep the deliverable of a plan, also of a completed one; versions are kept.",
    arguments=StoreResearchOutput,
    output_schema=output_schema(outputId="string", version="integer"),
    run=store_research_output,
    profiles=RESEARCH,
)
