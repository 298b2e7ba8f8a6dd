"""Tools that create, copy and change a plan."""

from typing import Annotated, Self

from pydantic import AliasGenerator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from waybook.app.queries.audit import LAST_SEQ, changes_in, read_all_entries
from waybook.app.request import arguments as arg
from waybook.app.request.access import cache_steps
from waybook.app.request.locks.locking import (
    LockedPlan,
    OpenTransaction,
    PlanProposal,
    Proposal,
    Written,
    update,
)
from waybook.app.request.plan_arguments import (
    AddedSteps,
    BudgetArgument,
    ConditionArgument,
    StepArgument,
    StepConditionArgument,
    StepOrder,
    Touches,
    minutes_to_seconds,
    to_budget,
    touches_text,
)
from waybook.app.request.reply import canceled_view, fit_reply, next_call, origin_view, step_view
from waybook.app.request.request_context import RequestContext, ToolReply, not_found
from waybook.app.request.tool import Tool
from waybook.core.changes import replay
from waybook.core.events import PLAN, ChangeEvent
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, non_empty
from waybook.plan import modify
from waybook.plan.copy import CopiedPlan
from waybook.plan.copy import copy_plan as decide_copy
from waybook.plan.create import NewPlan, create
from waybook.plan.model import CLOSED_PLAN, MAX_CONDITIONS, MAX_STEPS, Plan, StepId, StepStatus
from waybook.plan.progress import plan_progress
from waybook.store.driver.queries import first_value
from waybook.store.plans import writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan


class CreateResearchPlan(arg.MutatingArguments):
    name: arg.Name = Field(description="short name")
    research_question: arg.Text = Field(description="question or goal")
    steps: arg.ListOf[StepArgument] = Field(
        min_length=1, max_length=MAX_STEPS, description="in order"
    )
    sequential: bool = arg.optional(
        "each step needs all results before it; default: in parallel",
        default=False,
    )
    branching_conditions: arg.ListOf[ConditionArgument] | None = arg.optional(
        "tested when a step completes", max_length=MAX_CONDITIONS
    )
    output_formatting_notes: arg.Text | None = arg.optional("how to format the plan's output")
    stall_minutes: arg.Minutes | None = arg.optional("for steps without their own")
    budget: BudgetArgument = None


@Tool(
    title="Create a plan",
    description="Create a plan of steps. Then call get_next_step with its planId.",
    reply={"planId": "string"},
)
async def create_research_plan(ctx: RequestContext, args: CreateResearchPlan) -> ToolReply:
    """Create a plan. If the session has started a skill, link the plan to this skill."""
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
        decision = create(new_plan, opened.context)
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
    carried = plan_progress(plan).done
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
    """Copy a plan. If the session has started a skill, link the copy to this skill."""
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
        skill_id, context = first_value(opened.results[0]), opened.context
        decision = decide_copy(source, context, name=args.name, skill_execution_id=skill_id)
        statements, head = writer.statements(None, decision, opened.write_context)
        event = ChangeEvent(PLAN, decision.plan.id, head.seq, list_changed=True)
        # Do not cache the new plan, because `decision.plan` lacks the copied conditions.
        return Proposal(Written(statements, event=event), _created_plan_reply(decision.plan))

    return await update(opened, decide)


_TEXT_SCHEMA = WithJsonSchema({"type": "string"})
_IDS_SCHEMA = WithJsonSchema({"type": "array", "items": {"type": "string"}})


class _SingleArgument(arg.Nested):
    """Action with one argument. Clients can send the argument itself instead of an object."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_argument(cls, value: object) -> object:
        (argument,) = cls.model_fields.values()
        return value if isinstance(value, dict) else {str(argument.alias): value}


class _StepChange(arg.Nested):
    step_id: arg.StepIdField

    @property
    def id(self) -> StepId:
        return StepId(self.step_id)


class AddSteps(arg.Nested):
    steps: AddedSteps = Field(description="in order")
    insert_after_order: arg.Offset | None = arg.optional("0: first; default: last", ge=0)

    def change(self) -> modify.Modification:
        steps = tuple(step.new_step() for step in self.steps)
        return modify.AddSteps(steps, self.insert_after_order)


class RemoveStep(_StepChange, _SingleArgument):
    def change(self) -> modify.Modification:
        return modify.RemoveStep(self.id)


class ReorderSteps(_SingleArgument):
    step_ids: arg.ListOf[arg.StepIdField]

    def change(self) -> modify.Modification:
        return modify.ReorderSteps(tuple(map(StepId, self.step_ids)))


class UpdateInstructions(_StepChange):
    instructions: arg.Text = Field(description="new instructions")

    def change(self) -> modify.Modification:
        return modify.UpdateInstructions(self.id, self.instructions)


class FailStep(_StepChange):
    reason: arg.Text = Field(description="why it failed")
    attempt: arg.Attempt | None = arg.optional("from get_next_step")
    #: If true, the step becomes pending again. The published schema omits this field, because
    #: `retry_step` after `fail_step` has the same effect.
    retry: SkipJsonSchema[bool] = False

    def change(self) -> modify.Modification:
        return modify.FailStep(self.id, self.reason, self.retry, self.attempt)


class RetryStep(_StepChange, _SingleArgument):
    def change(self) -> modify.Modification:
        return modify.RetryStep(self.id)


class SetConditions(_StepChange):
    branching_conditions: arg.ListOf[StepConditionArgument] = Field(
        max_length=MAX_CONDITIONS, description="all its conditions"
    )

    def change(self) -> modify.Modification:
        conditions = tuple(c.new_condition() for c in self.branching_conditions)
        return modify.SetConditions(self.id, conditions)


class SetTitle(_StepChange):
    title: arg.Name | None = arg.optional("default: none")

    def change(self) -> modify.Modification:
        return modify.SetTitle(self.id, self.title)


class SetDependencies(_StepChange):
    depends_on: arg.ListOf[StepOrder] = Field(description="orders of all steps to wait for")

    def change(self) -> modify.Modification:
        return modify.SetDependencies(self.id, tuple(self.depends_on))


class SetTouches(_StepChange):
    touches: Touches = Field(description="all its globs")

    def change(self) -> modify.Modification:
        return modify.SetTouches(self.id, touches_text(self.touches))


class SetBudget(arg.Nested):
    budget: BudgetArgument = None

    def change(self) -> modify.Modification:
        return modify.SetBudget(to_budget(self.budget))


class CancelPlan(_SingleArgument):
    reason: arg.Text

    def change(self) -> modify.Modification:
        return modify.CancelPlan(self.reason)


class ModificationArgument(arg.Nested):
    """One modification. Exactly one field is set: the action, with its arguments."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(alias=str),
        json_schema_extra={"minProperties": 1, "maxProperties": 1},
    )

    add_steps: AddSteps | None = arg.optional("add steps")
    remove_step: Annotated[RemoveStep, _TEXT_SCHEMA] | None = arg.optional(
        "remove this pending step"
    )
    reorder_steps: Annotated[ReorderSteps, _IDS_SCHEMA] | None = arg.optional(
        "all step ids in the new order"
    )
    update_step_instructions: UpdateInstructions | None = arg.optional(
        "replace a step's instructions"
    )
    fail_step: FailStep | None = arg.optional("mark a step as failed")
    retry_step: Annotated[RetryStep, _TEXT_SCHEMA] | None = arg.optional(
        "retry this failed or running step"
    )
    cancel_plan: (
        Annotated[CancelPlan, WithJsonSchema({"type": "string", "minLength": 1})] | None
    ) = arg.optional("end the plan for this reason")
    #: Actions that agents rarely need. The published schema omits them to stay small.
    set_conditions: SkipJsonSchema[SetConditions | None] = None
    set_title: SkipJsonSchema[SetTitle | None] = None
    set_dependencies: SkipJsonSchema[SetDependencies | None] = None
    set_touches: SkipJsonSchema[SetTouches | None] = None
    set_budget: SkipJsonSchema[SetBudget | None] = None

    @model_validator(mode="before")
    @classmethod
    def _omit_absent(cls, value: object) -> object:
        """Omit nulls and blank texts. If no value is left, keep the blank texts for the error."""
        if not isinstance(value, dict):
            return value
        return arg.without_absent(cls, value) or {n: v for n, v in value.items() if v is not None}

    @model_validator(mode="before")
    @classmethod
    def _accept_flat_form(cls, value: object) -> object:
        """Also accept the form `{"action": "remove_step", "stepId": …}`."""
        if not isinstance(value, dict):
            return value
        if isinstance(action := value.get("action"), str):
            value = {action: {n: inner for n, inner in value.items() if n != "action"}}
        if not value.keys() <= cls.model_fields.keys():
            known = ", ".join(cls.model_json_schema()["properties"])
            raise PydanticCustomError("action", "unknown action; use {known}", {"known": known})
        return value

    @model_validator(mode="after")
    def _require_single_action(self) -> Self:
        if sum(action is not None for _, action in self) != 1:
            raise PydanticCustomError("action", "must have exactly one action")
        return self

    def change(self) -> modify.Modification:
        change: modify.Modification = next(action.change() for _, action in self if action)
        return change


class _ModifyPlan(arg.MutatingArguments):
    plan_id: arg.PlanIdField
    modifications: arg.ListOf[ModificationArgument] = Field(
        min_length=1, max_length=50, description="in order"
    )
    modification_rationale: arg.Text | None = arg.optional("why")
    expected_revision: arg.Offset | None = arg.optional("refuse at another revision")
    dry_run: bool = arg.optional("only show the changes", default=False)


@Tool(
    title="Change a plan",
    description="Change a plan: all modifications or, if one is refused, none.",
    reply={"revision": "integer"},
    destructive=True,
)
async def modify_plan(ctx: RequestContext, args: _ModifyPlan) -> ToolReply:
    """Apply all modifications or none. A dry run only returns the changes that would be made."""
    modifications = tuple(modification.change() for modification in args.modifications)
    texts = tuple(m.step_id for m in modifications if isinstance(m, modify.StepModification))
    locked = LockedPlan(ctx, plan_id=args.plan_id, texts=texts)

    async def decide() -> PlanProposal | Body:
        decision = modify.modify(
            locked.plan,
            modifications,
            locked.context,
            rationale=args.modification_rationale,
            expected_revision=args.expected_revision,
        )
        plan = decision.plan
        following = next_call("get_next_step", "Claim the next step.", planId=plan.id)
        if plan.status in CLOSED_PLAN:
            ended = "The plan has ended. Read all its results."
            following = next_call("get_research_context", ended, planId=plan.id)
        body = non_empty(
            planId=plan.id,
            planStatus=str(plan.status),
            **canceled_view(plan),
            revision=plan.revision,
            steps=[step_view(step, attempt=step.attempt) for step in plan.steps],
            applied=sum(entry.event == "plan_modified" for entry in decision.entries),
            next=following,
        )
        look = next_call("get_plan_status", "Get the full list.", planId=plan.id, detail=True)
        body = fit_reply(body, ("steps",), look)
        if not args.dry_run:
            return Proposal(decision, body)
        why = "See the plan. Repeat the call without dryRun to apply it."
        changes: list[Json] = [
            change.as_json() for entry in decision.entries for change in entry.changes
        ]
        shown = next_call("get_plan_status", why, planId=plan.id)
        return {**body, "dryRun": True, "diff": changes, "next": shown}

    return await update(locked, decide)
