"""create_research_plan: write a plan down."""

from pydantic import Field

from waybook.plan.create import NewPlan, create
from waybook.plan.model import Plan
from waybook.record.news import PLAN, News
from waybook.store import ledger, skill_executions
from waybook.store.plans import LoadedPlan
from waybook.usecases.arguments import Loose, Minutes, Mutating, Name, Text
from waybook.usecases.asked_steps import AskedCondition, AskedStep, seconds
from waybook.usecases.asked_usage import BudgetArgument, budget_of
from waybook.usecases.call import Body, Call
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import Tool
from waybook.usecases.views import following, told


class CreateResearchPlan(Mutating):
    name: Name
    research_question: Text
    steps: Loose[list[AskedStep]] = Field(min_length=1)
    branching_conditions: Loose[list[AskedCondition]] | None = None
    output_formatting_notes: Text | None = None
    stall_minutes: Minutes | None = None
    budget: BudgetArgument = None


async def create_research_plan(call: Call, asked: CreateResearchPlan) -> Body:
    """Write the plan, its steps and its conditions, linked to the session's latest skill."""
    async with call.open(skill_executions.latest_statement(call.actor().holder)) as opened:
        decision = create(_new_plan(asked, skill_executions.latest(opened.found[0])), opened.moment)
        written = ledger.statements(None, decision, opened.hand())
        body = await opened.write(written.statements, _reply(decision.plan))
        loaded = LoadedPlan(decision.plan, opened.now, written.head)
        call.house.memory.keep((call.caller.org_id, decision.plan.id), loaded, all_sessions=True)
        news = News(PLAN, decision.plan.id, written.head.seq, standing=True)
        call.house.bus.publish(call.caller.org_id, news)
        return body


def _new_plan(asked: CreateResearchPlan, skill_execution_id: str | None) -> NewPlan:
    return NewPlan(
        name=asked.name,
        research_question=asked.research_question,
        steps=tuple(step.new_step() for step in asked.steps),
        conditions=tuple(c.new_condition() for c in asked.branching_conditions or ()),
        formatting_notes=asked.output_formatting_notes,
        stall_seconds=seconds(asked.stall_minutes),
        skill_execution_id=skill_execution_id,
        budget=budget_of(asked.budget),
    )


def _reply(plan: Plan) -> Body:
    first = plan.steps[0]
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.status),
        "stepIds": [step.id for step in plan.steps],
        "firstStep": told(
            stepId=first.id,
            stepOrder=first.order,
            stepType=str(first.type),
            title=first.title,
            instructions=plan.texts[first.id].instructions,
        ),
        "revision": plan.revision,
        "next": following("get_next_step", "take the first step", planId=plan.id),
    }


TOOL = Tool(
    name="create_research_plan",
    title="Create a plan",
    description="Write a plan down. Conditions run when their step completes.",
    arguments=CreateResearchPlan,
    output_schema=output_schema(planId="string"),
    run=create_research_plan,
)
