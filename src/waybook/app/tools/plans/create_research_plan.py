"""create_research_plan: create a plan with its steps."""

from typing import Annotated

from pydantic import ConfigDict, Field

from waybook.app.queries.audit import LAST_SEQ, changes_in, read_all_entries
from waybook.app.request.arguments import Id, LenientJson, Minutes, MutatingArguments, Name, Text
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
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil, not_found
from waybook.app.request.tool import Tool, output_schema
from waybook.core.events import PLAN, ChangeEvent
from waybook.core.replay import replay
from waybook.errors import InvalidInput
from waybook.json_values import Body, non_empty
from waybook.plan.copy import CopiedPlan, CopyOptions, copy_plan
from waybook.plan.create import NewPlan, create
from waybook.plan.model import MAX_STEPS, Plan
from waybook.plan.progress import count_done
from waybook.plan.states import StepStatus
from waybook.store import skill_executions
from waybook.store.plans import writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan

StepOrder = Annotated[int, Field(ge=0, le=MAX_STEPS)]
AuditSeq = Annotated[int, Field(ge=1, le=LAST_SEQ)]


class CreateResearchPlan(MutatingArguments):
    # Models follow the schema, so it requires the arguments of a new plan. A call that copies a
    # plan works without them.
    model_config = ConfigDict(json_schema_extra={"required": ["name", "researchQuestion", "steps"]})

    name: Name | None = Field(default=None, description="short name")
    research_question: Text | None = Field(default=None, description="question or goal")
    steps: LenientJson[list[StepArgument]] | None = Field(default=None, description="in order")
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
    output_formatting_notes: Text | None = Field(default=None, description="form of the output")
    stall_minutes: Minutes | None = Field(default=None, description="default for all steps")
    budget: BudgetArgument = None
    copy_of_plan: Id | None = Field(default=None, alias="copyOf", description="plan to copy")
    up_to_step: StepOrder | None = Field(default=None, description="copy results up to this step")
    at_audit_seq: AuditSeq | None = Field(default=None, description="copy as of this audit entry")


async def create_research_plan(ctx: RequestContext, args: CreateResearchPlan) -> ToolReply:
    """Create the plan with its steps and conditions, and link it to the session's latest skill."""
    _check_arguments(args)
    source = await _copied_plan(ctx, args) if args.copy_of_plan is not None else None
    opened = OpenTransaction(ctx, skill_executions.latest_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        skill = skill_executions.read_latest(opened.results[0])
        if source is None:
            decision = create(_new_plan(args, skill), opened.decision_context)
        else:
            decision = copy_plan(source, _copy_options(args, skill), opened.decision_context)
        plan = decision.plan
        statements, head = writer.statements(None, decision, opened.write_context)

        def remember() -> None:
            key, loaded = (ctx.caller.org_id.int, plan.id), LoadedPlan(plan, opened.now, head)
            ctx.services.shared(PlanCache).put(key, loaded, all_sessions=True)
            cache_steps(ctx, plan)

        event = ChangeEvent(PLAN, plan.id, head.seq, list_changed=True)
        # Do not cache a copy, because its conditions exist only as rows.
        cached = remember if source is None else None
        return Proposal(Written(statements, event=event, remember=cached), _reply(plan))

    return await update(opened, decide)


def _check_arguments(args: CreateResearchPlan) -> None:
    if args.copy_of_plan is None:
        given = {
            "name": args.name,
            "researchQuestion": args.research_question,
            "steps": args.steps,
        }
        missing = [name for name, value in given.items() if not value]
        if missing:
            faults = [{"at": name, "fault": "is missing"} for name in missing]
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise InvalidInput(f"{missing[0]}: is missing{more}", faults=faults)
        # Some clients fill in every argument, so ignore the position argument of copies.
    elif args.steps or args.branching_conditions:
        raise InvalidInput(
            "a copy gets its steps and conditions from the plan in `copyOf`: leave out `steps` and "
            "`branchingConditions`, and change the copy with modify_plan"
        )
    elif args.up_to_step is not None and args.at_audit_seq is not None:
        raise InvalidInput("give either upToStep or atAuditSeq, not both")


async def _copied_plan(ctx: RequestContext, args: CreateResearchPlan) -> CopiedPlan:
    """Rebuild the plan to copy as it was at the requested audit entry."""
    plan_id, seq = id_or_nil(args.copy_of_plan or "").lower(), args.at_audit_seq
    entries = await read_all_entries(ctx, plan_id, until=seq or LAST_SEQ)
    rows = replay(changes_in(entries))
    if "plan" not in rows:
        raise not_found("plan")
    last = entries[-1].seq
    if seq is not None and seq != last:
        raise InvalidInput(
            f"atAuditSeq is {seq}, but that plan has the audit entries 1 to {last}",
            argument="atAuditSeq",
            given=seq,
            lastEntry=last,
        )
    return CopiedPlan(id=plan_id, seq=last, rows=rows, up_to_step=args.up_to_step)


def _new_plan(args: CreateResearchPlan, skill_execution_id: str | None) -> NewPlan:
    return NewPlan(
        name=args.name or "",
        research_question=args.research_question or "",
        steps=tuple(step.new_step() for step in args.steps or ()),
        conditions=tuple(c.new_condition() for c in args.branching_conditions or ()),
        formatting_notes=args.output_formatting_notes,
        stall_seconds=minutes_to_seconds(args.stall_minutes),
        skill_execution_id=skill_execution_id,
        budget=to_budget(args.budget),
        sequential=args.sequential,
    )


def _copy_options(args: CreateResearchPlan, skill_execution_id: str | None) -> CopyOptions:
    return CopyOptions(
        name=args.name,
        research_question=args.research_question,
        formatting_notes=args.output_formatting_notes,
        stall_seconds=minutes_to_seconds(args.stall_minutes),
        budget=to_budget(args.budget),
        skill_execution_id=skill_execution_id,
    )


def _reply(plan: Plan) -> Body:
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
