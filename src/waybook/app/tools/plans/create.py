"""Tools that create a plan, either a new one or a copy."""

from pydantic import Field

from waybook.app.queries.audit import LAST_SEQ, changes_in, read_all_entries
from waybook.app.request import arguments as arg
from waybook.app.request.access import cache_steps
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.plan_arguments import (
    BudgetArgument,
    ConditionArgument,
    StepArgument,
    minutes_to_seconds,
    to_budget,
)
from waybook.app.request.reply import next_call, origin_view
from waybook.app.request.request_context import RequestContext, ToolReply, not_found
from waybook.app.request.tool import Tool
from waybook.core.changes import replay
from waybook.core.events import PLAN, ChangeEvent
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, non_empty
from waybook.plan.copy import CopiedPlan, CopyOptions
from waybook.plan.copy import copy_plan as decide_copy
from waybook.plan.create import NewPlan, create
from waybook.plan.model import MAX_CONDITIONS, MAX_STEPS, Plan, StepStatus
from waybook.plan.progress import count_done
from waybook.store.driver.queries import first_value
from waybook.store.plans import writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan


class CreateResearchPlan(arg.MutatingArguments):
    name: arg.Name = Field(description="short name")
    research_question: arg.Text = Field(description="question or goal")
    steps: arg.LenientJson[list[StepArgument]] = Field(
        min_length=1, max_length=MAX_STEPS, description="in order"
    )
    sequential: bool = arg.optional(
        "true if each step needs all results before it; otherwise agents may work in parallel",
        default=False,
    )
    branching_conditions: arg.LenientJson[list[ConditionArgument]] | None = arg.optional(
        "tested when a step completes", max_length=MAX_CONDITIONS
    )
    output_formatting_notes: arg.Text | None = arg.optional("how to format the plan's output")
    stall_minutes: arg.Minutes | None = arg.optional("stallMinutes of steps without their own")
    budget: BudgetArgument = None


@Tool(
    title="Create a plan",
    description="Create a plan of steps. Then call get_next_step with its planId.",
    reply={"planId": "string"},
)
async def create_research_plan(ctx: RequestContext, args: CreateResearchPlan) -> ToolReply:
    """Create a plan with steps and conditions. Link it to the skill that the session started."""
    opened = OpenTransaction(ctx, writer.latest_skill_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        skill = first_value(opened.results[0])
        new_plan = NewPlan(
            name=args.name,
            research_question=args.research_question,
            steps=tuple(step.new_step() for step in args.steps),
            conditions=tuple(c.new_condition() for c in args.branching_conditions or ()),
            formatting_notes=args.output_formatting_notes,
            stall_seconds=minutes_to_seconds(args.stall_minutes),
            skill_execution_id=skill,
            budget=to_budget(args.budget),
            sequential=args.sequential,
        )
        decision = create(new_plan, opened.decision_context)
        plan = decision.plan
        statements, head = writer.statements(None, decision, opened.write_context)

        def remember() -> None:
            key, loaded = (ctx.caller.org_id.int, plan.id), LoadedPlan(plan, opened.now, head)
            ctx.services.shared(PlanCache).put(key, loaded, all_sessions=True)
            cache_steps(ctx, plan)

        event = ChangeEvent(PLAN, plan.id, head.seq, list_changed=True)
        return Proposal(
            Written(statements, event=event, remember=remember), _created_plan_reply(plan)
        )

    return await update(opened, decide)


def _created_plan_reply(plan: Plan) -> Body:
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


class _CopyPlan(arg.MutatingArguments):
    plan_id: arg.PlanIdField = Field(description="the plan to copy")
    up_to_step: arg.Offset | None = arg.optional("keep results up to this step")
    at_audit_seq: arg.Offset | None = arg.optional("copy it as of this audit entry")
    name: arg.Name | None = arg.optional("name of the copy")


@Tool(
    title="Copy a plan",
    description=(
        "Copy an open or closed plan to continue or redo it; results are kept. Then call "
        "get_next_step."
    ),
    reply={"planId": "string"},
)
async def copy_plan(ctx: RequestContext, args: _CopyPlan) -> ToolReply:
    """Create a copy of a plan, and link the copy to the skill that the session started."""
    plan_id, seq = args.plan_id, args.at_audit_seq
    entries = await read_all_entries(ctx, plan_id, until=LAST_SEQ if seq is None else max(seq, 1))
    rows = replay(changes_in(entries))
    if "plan" not in rows:
        raise not_found("plan")
    last = entries[-1].seq
    if seq not in {None, last}:
        raise NotFound(
            f"that plan has no audit entry {seq}; its entries are numbered from 1",
            next_call=NextCall("copy_plan", {"planId": plan_id}, "Copy the plan as it is now."),
        )
    source = CopiedPlan(id=plan_id, seq=last, rows=rows, up_to_step=args.up_to_step)
    opened = OpenTransaction(ctx, writer.latest_skill_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        options = CopyOptions(
            name=args.name,
            skill_execution_id=first_value(opened.results[0]),
        )
        decision = decide_copy(source, options, opened.decision_context)
        statements, head = writer.statements(None, decision, opened.write_context)
        event = ChangeEvent(PLAN, decision.plan.id, head.seq, list_changed=True)
        # Do not cache the new plan, because its conditions are not in memory, only in the database.
        return Proposal(Written(statements, event=event), _created_plan_reply(decision.plan))

    return await update(opened, decide)
