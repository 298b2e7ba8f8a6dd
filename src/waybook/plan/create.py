"""Creates a plan. All input is validated before any row is written."""

from dataclasses import dataclass

from waybook.core.changes import Entity, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidInput
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft, register_session
from waybook.plan.model import Budget, NewCondition, NewStep, Plan, PlanId, PlanStatus
from waybook.plan.new_conditions import step_at
from waybook.plan.schema import check_new_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    name: str
    research_question: str
    steps: tuple[NewStep, ...]
    conditions: tuple[NewCondition, ...] = ()
    formatting_notes: str | None = None
    stall_seconds: int | None = None
    skill_execution_id: str | None = None
    budget: Budget | None = None
    sequential: bool = False


def create(new: NewPlan, context: DecisionContext) -> Decision[Plan]:
    """Create a plan with its ordered steps and their conditions.

    Raises:
        InvalidInput: the plan has no step, or a part of it is malformed.
        TooLarge: the plan exceeds a size limit.
        InvalidStepReference: a condition or dependsOn names a position that does not exist, or the
            dependencies form a cycle.
        BadExpression: a condition does not compile.
    """
    if not new.steps:
        raise InvalidInput("a plan needs at least one step", argument="steps")
    check_new_steps(new.steps, new.conditions)
    draft = Draft(blank_plan(new, PlanId(context.new_id()), context), context)
    draft.insert(Entity.PLAN, draft.plan.id, plan_row(draft.plan, new))
    ids = draft.add_steps(new.steps, after=0)
    for condition in new.conditions:
        draft.add_condition(condition, step_at(ids, condition.after_step_order, "afterStepOrder"))
    register_session(draft)
    draft.record(Event.PLAN_MODIFIED, action="created", steps=len(ids), **skill_details(new))
    return draft.decide(draft.plan)


def skill_details(new: NewPlan) -> dict[str, Json]:
    return {"skillExecutionId": new.skill_execution_id} if new.skill_execution_id else {}


def plan_row(plan: Plan, new: NewPlan) -> dict[str, Json]:
    row: dict[str, Json] = {name: as_json(getattr(plan, name)) for name in _PLAN_FIELDS}
    row |= {
        "research_question": new.research_question,
        "formatting_notes": new.formatting_notes,
        "completed_at": None,
        "skill_execution_id": new.skill_execution_id,
        "budget": new.budget.as_json() if new.budget else None,
    }
    if plan.sequential:
        row["sequential"] = True
    if plan.copied_from is not None:
        row |= {"copied_from": plan.copied_from, "copied_seq": plan.copied_seq}
    return row


#: Fields of a plan that have the same names in its row.
_PLAN_FIELDS = (
    *("name", "status", "revision", "stall_seconds", "resumed_at", "fail_reason"),
    *("created_at", "created_by"),
)


def blank_plan(new: NewPlan, plan_id: PlanId, context: DecisionContext) -> Plan:
    return Plan(
        id=plan_id,
        name=new.name,
        status=PlanStatus.PLANNING,
        revision=1,
        stall_seconds=new.stall_seconds,
        resumed_at=None,
        fail_reason=None,
        seq=0,
        steps=(),
        budget=new.budget,
        created_by=context.actor.user,
        created_at=context.now,
        sequential=new.sequential,
    )
