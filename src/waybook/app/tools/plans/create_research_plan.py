"""create_research_plan: create a plan with its steps."""

from pydantic import Field

from waybook.app.request.arguments import LenientJson, Minutes, MutatingArguments, Name, Text
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.plan_access import cache_steps
from waybook.app.request.plan_arguments import (
    BudgetArgument,
    ConditionArgument,
    StepArgument,
    minutes_to_seconds,
    to_budget,
)
from waybook.app.request.reply import next_call, origin_view
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.core.events import PLAN, ChangeEvent
from waybook.json_values import Body, non_empty
from waybook.plan.create import NewPlan, create
from waybook.plan.model import MAX_STEPS, Plan
from waybook.plan.progress import count_done
from waybook.plan.states import StepStatus
from waybook.store import skill_executions
from waybook.store.plans import writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan


class CreateResearchPlan(MutatingArguments):
    name: Name = Field(description="short name")
    research_question: Text = Field(description="question or goal")
    steps: LenientJson[list[StepArgument]] = Field(
        min_length=1, max_length=MAX_STEPS, description="in order"
    )
    sequential: bool = Field(
        default=False,
        description=(
            "true if each step needs the results of all steps before it; otherwise several agents "
            "may work at once"
        ),
    )
    branching_conditions: LenientJson[list[ConditionArgument]] | None = Field(
        default=None, description="tests when a step completes"
    )
    output_formatting_notes: Text | None = Field(
        default=None, description="how the output should look"
    )
    stall_minutes: Minutes | None = Field(default=None, description="for steps without their own")
    budget: BudgetArgument = None


async def create_research_plan(ctx: RequestContext, args: CreateResearchPlan) -> ToolReply:
    """Create the plan, its steps and its conditions; link it to the session's latest skill."""
    opened = OpenTransaction(ctx, skill_executions.latest_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        skill = skill_executions.read_latest(opened.results[0])
        decision = create(_new_plan(args, skill), opened.decision_context)
        plan = decision.plan
        statements, head = writer.statements(None, decision, opened.write_context)

        def remember() -> None:
            key, loaded = (ctx.caller.org_id.int, plan.id), LoadedPlan(plan, opened.now, head)
            ctx.services.shared(PlanCache).put(key, loaded, all_sessions=True)
            cache_steps(ctx, plan)

        event = ChangeEvent(PLAN, plan.id, head.seq, list_changed=True)
        return Proposal(
            Written(statements, event=event, remember=remember), created_plan_reply(plan)
        )

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
        sequential=args.sequential,
    )


def created_plan_reply(plan: Plan) -> Body:
    """Return the reply for a new plan, with its first step."""
    first = next(plan.steps_with_status(StepStatus.PENDING))
    carried = count_done(plan.statuses())
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.status),
        "stepIds": [step.id for step in plan.steps],
        **non_empty(
            copiedFrom=origin_view(plan),
            carriedOver=carried if plan.copied_from is not None else None,
        ),
        "firstStep": non_empty(
            stepId=first.id,
            stepOrder=first.order,
            stepType=str(first.type),
            title=first.title,
            instructions=plan.texts[first.id].instructions,
        ),
        "revision": plan.revision,
        "next": next_call("get_next_step", "Claim the first step.", planId=plan.id),
    }


TOOL = Tool(
    name="create_research_plan",
    title="Create a plan",
    description="Create a plan of steps. Then call get_next_step with its planId.",
    arguments=CreateResearchPlan,
    output_schema=output_schema(planId="string"),
    run=create_research_plan,
)
