"""create_research_plan: create a plan with its steps."""

from functools import partial

from pydantic import Field

from waybook.app.request.arguments import LenientJson, Minutes, MutatingArguments, Name, Text
from waybook.app.request.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.plan_arguments import (
    BudgetArgument,
    ConditionArgument,
    StepArgument,
    minutes_to_seconds,
    to_budget,
)
from waybook.app.request.reply import next_call, non_empty
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.core.events import PLAN, ChangeEvent
from waybook.json_values import Body
from waybook.plan.create import NewPlan, create
from waybook.plan.model import Plan
from waybook.store import skill_executions
from waybook.store.plans import writer
from waybook.store.plans.load import LoadedPlan


class CreateResearchPlan(MutatingArguments):
    name: Name = Field(description="short name")
    research_question: Text = Field(description="question or goal")
    steps: LenientJson[list[StepArgument]] = Field(min_length=1, description="in order")
    branching_conditions: LenientJson[list[ConditionArgument]] | None = Field(
        default=None, description="tests when a step completes"
    )
    output_formatting_notes: Text | None = Field(
        default=None, description="form of the deliverable"
    )
    stall_minutes: Minutes | None = Field(default=None, description="default for all steps")
    budget: BudgetArgument = None


async def create_research_plan(ctx: RequestContext, args: CreateResearchPlan) -> ToolReply:
    """Create the plan, its steps and its conditions; link it to the session's latest skill."""
    opened = OpenTransaction(ctx, skill_executions.latest_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        new = _new_plan(args, skill_executions.read_latest(opened.results[0]))
        decision = create(new, opened.decision_context)
        plan = decision.plan
        statements, head = writer.statements(None, decision, opened.write_context)
        remember = partial(
            ctx.services.plan_cache.put,
            (ctx.caller.org_id, plan.id),
            LoadedPlan(plan, opened.now, head),
            all_sessions=True,
        )
        event = ChangeEvent(PLAN, plan.id, head.seq, list_changed=True)
        return Proposal(Written(statements, event=event, remember=remember), _reply(plan))

    return await update(opened, decide)


def _new_plan(args: CreateResearchPlan, skill_execution_id: str | None) -> NewPlan:
    return NewPlan(
        name=args.name,
        research_question=args.research_question,
        steps=tuple(step.new_step() for step in args.steps),
        conditions=tuple(c.new_condition() for c in args.branching_conditions or ()),
        formatting_notes=args.output_formatting_notes,
        stall_seconds=minutes_to_seconds(args.stall_minutes),
        skill_execution_id=skill_execution_id,
        budget=to_budget(args.budget),
    )


def _reply(plan: Plan) -> Body:
    first = plan.steps[0]
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.status),
        "stepIds": [step.id for step in plan.steps],
        "firstStep": non_empty(
            stepId=first.id,
            stepOrder=first.order,
            stepType=str(first.type),
            title=first.title,
            instructions=plan.texts[first.id].instructions,
        ),
        "revision": plan.revision,
        "next": next_call("get_next_step", "take the first step", planId=plan.id),
    }


TOOL = Tool(
    name="create_research_plan",
    title="Create a plan",
    description="Create a plan of steps. Then call get_next_step with its planId.",
    arguments=CreateResearchPlan,
    output_schema=output_schema(planId="string"),
    run=create_research_plan,
)
