"""modify_plan: change the steps of a running plan."""

from typing import Annotated, Literal, get_args

from pydantic import Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request.arguments import (
    Id,
    LenientJson,
    Line,
    MutatingArguments,
    Name,
    Nested,
    PlanIdField,
    StepIdField,
    Text,
    WholeNumber,
)
from waybook.app.request.locks.aggregates import LockedPlan, PlanProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.plan_arguments import (
    AddedSteps,
    BudgetFields,
    StepConditions,
    to_budget,
)
from waybook.app.request.reply import fit_reply, next_call, step_view
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json, non_empty
from waybook.plan import edit, modify
from waybook.plan.draft import Decision
from waybook.plan.model import Plan, StepId

PublishedAction = Literal[
    "add_steps",
    "remove_step",
    "reorder_steps",
    "update_step_instructions",
    "fail_step",
    "retry_step",
    "set_conditions",
    "cancel_plan",
]
#: The published schema omits the actions that only pages and programs use, to keep the tool list
#: small.
Action = Annotated[
    # Use one literal, because an error in a union of two literals would cause two messages.
    Literal[PublishedAction, "set_title", "set_dependencies", "set_budget"],
    WithJsonSchema({"type": "string", "enum": [*get_args(PublishedAction)]}),
]

ACTION_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "add_steps": (frozenset({"steps"}), frozenset({"insert_after_order"})),
    "remove_step": (frozenset({"step_id"}), frozenset()),
    "reorder_steps": (frozenset({"step_ids"}), frozenset()),
    "update_step_instructions": (frozenset({"step_id", "instructions"}), frozenset()),
    "fail_step": (frozenset({"step_id", "reason"}), frozenset({"retry"})),
    "retry_step": (frozenset({"step_id"}), frozenset()),
    "set_conditions": (frozenset({"step_id", "branching_conditions"}), frozenset()),
    "set_title": (frozenset({"step_id"}), frozenset({"title"})),
    "set_dependencies": (frozenset({"step_id", "depends_on"}), frozenset()),
    "set_budget": (frozenset(), frozenset({"budget"})),
    "cancel_plan": (frozenset({"reason"}), frozenset()),
}


class ModificationArgument(Nested):
    action: Action = Field(description="type")
    step_id: StepIdField | None = None
    steps: AddedSteps | None = Field(default=None, min_length=1, description="for add_steps")
    insert_after_order: int | None = Field(default=None, description="default: at the end")
    step_ids: LenientJson[list[Id]] | None = Field(
        default=None, description="all pending steps, reordered"
    )
    instructions: Text | None = Field(default=None, description="new instructions")
    reason: Line | None = Field(default=None, description="for fail_step, cancel_plan")
    #: Whether `fail_step` also retries the step. It is not published, because `retry_step`
    #: afterwards has the same effect.
    retry: SkipJsonSchema[bool | None] = None
    branching_conditions: StepConditions | None = Field(
        default=None, description="JSON array for set_conditions"
    )
    title: SkipJsonSchema[Name | None] = None
    depends_on: SkipJsonSchema[LenientJson[list[WholeNumber]] | None] = None
    budget: SkipJsonSchema[LenientJson[BudgetFields] | None] = None


class ModifyPlan(MutatingArguments):
    plan_id: PlanIdField
    modifications: LenientJson[list[ModificationArgument]] = Field(
        min_length=1, max_length=50, description="in order"
    )
    modification_rationale: Line | None = Field(default=None, description="why")
    #: `expectedRevision` and `dryRun` are not published, because only programs and pages use them.
    expected_revision: SkipJsonSchema[int | None] = None
    dry_run: SkipJsonSchema[bool] = False


async def modify_plan(ctx: RequestContext, args: ModifyPlan) -> ToolReply:
    """Apply all modifications or none. A dry run only returns the changes."""
    modifications = tuple(_modification(n, m) for n, m in enumerate(args.modifications))
    texts = tuple(m.step_id for m in args.modifications if m.step_id)
    locked = LockedPlan(ctx, plan_id=args.plan_id, texts=texts)

    async def decide() -> PlanProposal | Body:
        decision = modify.modify(
            locked.plan,
            modifications,
            locked.decision_context,
            rationale=args.modification_rationale,
            expected_revision=args.expected_revision,
        )
        body = _reply(decision.plan, decision)
        return _dry_run(decision, body) if args.dry_run else Proposal(decision, body)

    return await update(locked, decide)


def _dry_run(decision: Decision[Plan], body: Body) -> Body:
    why = "See the plan. Repeat the call without dryRun to apply it."
    shown = next_call("get_plan_status", why, planId=decision.plan.id)
    return {**body, "dryRun": True, "diff": _diff(decision), "next": shown}


def _modification(number: int, modification: ModificationArgument) -> modify.Modification:
    _check_fields(number, modification)
    match modification.action:
        case "add_steps":
            steps = tuple(step.new_step() for step in modification.steps or ())
            return modify.AddSteps(steps, modification.insert_after_order)
        case "reorder_steps":
            return modify.ReorderSteps(
                tuple(StepId(i.lower()) for i in modification.step_ids or ())
            )
        case "set_budget":
            return edit.SetBudget(to_budget(modification.budget))
        case "cancel_plan":
            return modify.CancelPlan(modification.reason or "")
        case _:
            return _step_modification(modification, StepId((modification.step_id or "").lower()))


def _step_modification(
    modification: ModificationArgument, step_id: StepId
) -> modify.StepModification:
    match modification.action:
        case "remove_step":
            return modify.RemoveStep(step_id)
        case "update_step_instructions":
            return modify.UpdateInstructions(step_id, modification.instructions or "")
        case "fail_step":
            return modify.FailStep(step_id, modification.reason or "", bool(modification.retry))
        case "retry_step":
            return modify.RetryStep(step_id)
        case _:
            return _pending_edit(modification, step_id)


def _pending_edit(modification: ModificationArgument, step_id: StepId) -> modify.PendingEdit:
    match modification.action:
        case "set_title":
            return edit.SetTitle(step_id, modification.title)
        case "set_dependencies":
            return edit.SetDependencies(step_id, tuple(modification.depends_on or ()))
        case _:
            conditions = modification.branching_conditions or ()
            return modify.SetConditions(step_id, tuple(c.new_condition() for c in conditions))


def _check_fields(number: int, modification: ModificationArgument) -> None:
    needed, optional = ACTION_FIELDS[modification.action]
    field_names = {
        name for name in modification.model_fields_set if getattr(modification, name) is not None
    }
    missing = needed - field_names
    stray = field_names - needed - optional - {"action"}
    if missing or stray:
        camel = {
            name: str(field.alias) for name, field in ModificationArgument.model_fields.items()
        }
        messages = [f"needs {camel[name]}" for name in sorted(missing)]
        messages += [f"does not accept {camel[name]}" for name in sorted(stray)]
        raise InvalidInput(
            f"modifications.{number}: {modification.action} {' and '.join(messages)}",
            at=f"modifications.{number}",
            action=modification.action,
        )


def _reply(plan: Plan, decision: Decision[Plan]) -> Body:
    steps: list[Json] = [step_view(step, attempt=step.attempt) for step in plan.steps]
    body = non_empty(
        planId=plan.id,
        planStatus=str(plan.status),
        revision=plan.revision,
        steps=steps,
        applied=sum(entry.event == "plan_modified" for entry in decision.entries),
        next=next_call("get_next_step", "Claim the next step.", planId=plan.id),
    )
    detail_call = next_call("get_plan_status", "Get the full list.", planId=plan.id, detail=True)
    return fit_reply(body, ("steps",), detail_call)


def _diff(decision: Decision[Plan]) -> list[Json]:
    return [change.as_json() for entry in decision.entries for change in entry.changes]


TOOL = Tool(
    name="modify_plan",
    title="Change a plan",
    description="Change a plan: all modifications or, if one is refused, none.",
    arguments=ModifyPlan,
    output_schema=output_schema(revision="integer"),
    run=modify_plan,
    destructive=True,
)
