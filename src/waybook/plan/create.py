"""Creation of a plan: all input is validated before any row is written."""

from dataclasses import dataclass

from waybook.core.changes import Entity, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidInput, InvalidStepReference, TooLarge
from waybook.json_values import Json
from waybook.plan.branching import compile_expression
from waybook.plan.draft import Decision, Draft, condition_row
from waybook.plan.model import (
    MAX_CONDITIONS,
    MAX_STEPS,
    BranchAction,
    Budget,
    Condition,
    ConditionId,
    NewStep,
    Plan,
    PlanId,
    StepId,
)
from waybook.plan.ordering import reject_branch_dependencies
from waybook.plan.schema import check_schemas
from waybook.plan.settle import register_session
from waybook.plan.states import PlanStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCondition:
    """Requested branching condition, which refers to steps by their position in the plan."""

    after_step_order: int
    expression: str
    action: BranchAction
    target_step_order: int | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None


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


def create(new: NewPlan, context: DecisionContext) -> Decision[Plan]:
    """Build a new plan: its row, its ordered steps, and their branching conditions.

    Raises:
        InvalidInput: it has no step, or a part of it is not of its form.
        TooLarge: it has more of something than a plan may have.
        InvalidStepReference: a condition or dependsOn names an order that does not exist, or
            steps wait for each other.
        BadExpression: a condition does not compile.
    """
    _check_plan(new)
    draft = Draft(_blank(new, PlanId(context.new_id()), context), context)
    draft.insert(Entity.PLAN, draft.plan.id, plan_row(new, context))
    ids = draft.add_steps(new.steps, after=0)
    for position, condition in enumerate(new.conditions, start=1):
        made = _tie(condition, position, ids, ConditionId(context.new_id()))
        draft.insert(Entity.CONDITION, made.id, condition_row(made))
        draft.plan = draft.plan._replace(conditions=(*draft.plan.conditions, made))
    register_session(draft)
    linked: dict[str, Json] = (
        {"skillExecutionId": new.skill_execution_id} if new.skill_execution_id else {}
    )
    draft.record(Event.PLAN_MODIFIED, action="created", steps=len(ids), **linked)
    return draft.decide(draft.plan)


def _check_plan(new: NewPlan) -> None:
    if not new.steps:
        raise InvalidInput("a plan needs at least one step", argument="steps")
    check_size(len(new.steps), len(new.conditions))
    for condition in new.conditions:
        check_size(len(condition.steps))
        reject_branch_dependencies(condition.steps)
    branched = (step for condition in new.conditions for step in condition.steps)
    check_schemas(step.result_schema for step in (*new.steps, *branched))


def check_size(steps: int, conditions: int = 0) -> None:
    """Check that a plan does not exceed the size limits for plans.

    Raises:
        TooLarge: more steps or conditions than a plan may have.
    """
    for count, most, what in (
        (steps, MAX_STEPS, "steps"),
        (conditions, MAX_CONDITIONS, "branching conditions"),
    ):
        if count > most:
            raise TooLarge(
                f"a plan may have {most} {what}, this one would have {count}",
                limit=most,
                asked=count,
            )


def plan_row(new: NewPlan, context: DecisionContext) -> dict[str, Json]:
    """Return the plan as a database row, without its id."""
    return {
        "name": new.name,
        "research_question": new.research_question,
        "formatting_notes": new.formatting_notes,
        "stall_seconds": new.stall_seconds,
        "status": str(PlanStatus.PLANNING),
        "revision": 1,
        "resumed_at": None,
        "completed_at": None,
        "fail_reason": None,
        "skill_execution_id": new.skill_execution_id,
        "created_at": as_json(context.now),
        "created_by": context.actor.user,
        "budget": new.budget.as_json() if new.budget else None,
    }


def _blank(new: NewPlan, plan_id: PlanId, context: DecisionContext) -> Plan:
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
    )


def _tie(new: NewCondition, position: int, ids: list[StepId], made: ConditionId) -> Condition:
    compile_expression(new.expression)
    after = _step_at(ids, new.after_step_order, "afterStepOrder")
    target = None
    if new.action is BranchAction.SKIP_TO:
        target = _step_at(ids, new.target_step_order, "actionParams.targetStepOrder")
    if new.action is BranchAction.ADD_STEPS and not new.steps:
        raise InvalidInput(
            "an add_steps branch needs actionParams.steps with at least one step",
            argument="actionParams.steps",
        )
    return Condition(
        id=made,
        step_id=after,
        position=position,
        expression=new.expression,
        action=new.action,
        target_step_id=target,
        steps=new.steps,
        reason=new.reason,
    )


def _step_at(ids: list[StepId], order: int | None, argument: str) -> StepId:
    if order is None or not 1 <= order <= len(ids):
        raise InvalidStepReference(
            f"{argument} is {order}, but this plan has the step orders 1 to {len(ids)}",
            argument=argument,
            given=order,
            totalSteps=len(ids),
        )
    return ids[order - 1]
