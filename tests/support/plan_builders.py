"""Builders for plan tests: steps, conditions, plans and decision contexts with default values."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from plan_invariants import is_derivable
from waybook.core.changes import Change
from waybook.core.decision_context import Actor, Channel, DecisionContext
from waybook.json_values import Json
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision, new_step
from waybook.plan.model import (
    BranchAction,
    Condition,
    ConditionId,
    NewCondition,
    NewStep,
    Plan,
    PlanId,
    PlanStatus,
    Review,
    ReviewId,
    Step,
    StepId,
    StepStatus,
    StepText,
    StepType,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

ANN = Actor(user="ann", channel=Channel.MCP, session="a")
BOB = Actor(user="bob", channel=Channel.MCP, session="b")
PAT = Actor(user="pat", channel=Channel.DASHBOARD)


def numbered_ids(prefix: str = "id") -> Callable[[], str]:
    """Return a function whose calls return `id1`, `id2` and so on, with this prefix."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


_FRESH = numbered_ids("new")


def make_context(actor: Actor = ANN, *, minutes: float = 0) -> DecisionContext:
    """Return a decision context (time, actor, new ids), this many minutes after noon."""
    return DecisionContext(NOON + timedelta(minutes=minutes), actor, _FRESH, _FRESH)


def make_new_step(instructions: str = "Look it up.", **values: object) -> NewStep:
    return replace(NewStep(type=StepType.SEARCH, instructions=instructions), **values)  # type: ignore[arg-type]  # fields of NewStep


def make_step(status: StepStatus = StepStatus.PENDING, **values: object) -> Step:
    """Return a step; if its status needs a holder, Ann claimed it at noon."""
    step = new_step(StepId(""), make_new_step(), 0)._replace(status=status)
    if status in {StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT}:
        step = step._replace(in_progress_since=NOON, held_by="ann", held_session="a")
    return step._replace(**values)  # type: ignore[arg-type]  # fields of Step


def make_condition(
    after: int, expression: str, action: BranchAction = BranchAction.CONTINUE, **values: object
) -> Condition:
    """Return a condition of step `after`; `make_plan` sets its id."""
    condition = Condition(
        id=ConditionId(""),
        step_id=StepId(f"s{after}"),
        position=0,
        expression=expression,
        action=action,
    )
    return replace(condition, **values)  # type: ignore[arg-type]  # fields of Condition


def make_review(step: int, **values: object) -> Review:
    review = Review(
        id=ReviewId("r"),
        step_id=StepId(f"s{step}"),
        summary="Is this right?",
        questions=(),
        result_summary=None,
        requested_at=NOON,
        requested_by="ann",
    )
    return review._replace(**values)  # type: ignore[arg-type]  # fields of Review


def make_plan(
    *steps: Step, status: PlanStatus | None = None, schema: Json = None, **values: object
) -> Plan:
    """Return a plan with steps `s1`, `s2` …; the default status follows from the steps."""
    placed = tuple(
        step._replace(id=StepId(f"s{order}"), order=order)
        for order, step in enumerate(steps, start=1)
    )
    text = StepText(instructions="Look it up.", result_schema=schema)
    plan = Plan(
        id=PlanId("p"),
        name="Rivers",
        status=status or _status_of(placed),
        revision=1,
        stall_seconds=None,
        resumed_at=None,
        fail_reason=None,
        seq=5,
        steps=placed,
        texts={step.id: text for step in placed},
        sessions=frozenset({"a", "b"}),
    )
    plan = plan._replace(**values)  # type: ignore[arg-type]  # fields of Plan
    tied = tuple(
        replace(condition, id=ConditionId(f"c{n}"), position=n)
        for n, condition in enumerate(plan.conditions, start=1)
    )
    return plan._replace(conditions=tied)


def _status_of(steps: tuple[Step, ...]) -> PlanStatus:
    return next(status for status in PlanStatus if is_derivable(status, [s.status for s in steps]))


def make_new_plan(*steps: NewStep, conditions: tuple[NewCondition, ...] = ()) -> NewPlan:
    return NewPlan(
        name="Rivers",
        research_question="Which river is longest?",
        steps=steps or (make_new_step(),),
        conditions=conditions,
    )


def make_created_plan(steps: int = 3, *, actor: Actor = ANN) -> Plan:
    """Return a plan as the plan rule `create` makes it."""
    return create(make_new_plan(*[make_new_step()] * steps), make_context(actor)).plan


def step_id(order: int) -> StepId:
    return StepId(f"s{order}")


def ids(*orders: int) -> tuple[StepId, ...]:
    return tuple(step_id(order) for order in orders)


def statuses(plan: Plan) -> list[str]:
    return [str(status) for status in plan.statuses()]


def changes_of(decision: Decision[object]) -> list[Change]:
    return [change for entry in decision.entries for change in entry.changes]


def events_of(decision: Decision[object]) -> list[str]:
    return [str(entry.event) for entry in decision.entries]


def moves_of(decision: Decision[object], row_id: str) -> list[tuple[Json, Json]]:
    """Return the status changes of one row in a decision, as pairs of old and new status."""
    return [
        (change.old, change.new)
        for change in changes_of(decision)
        if change.id == row_id and change.field == "status"
    ]
