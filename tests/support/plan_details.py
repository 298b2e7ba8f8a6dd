"""Data of the plan page for plans of 5,000 steps, which are too large for the tools."""

from datetime import timedelta
from random import Random
from uuid import UUID

from plan_builders import NOON, make_plan, make_step
from waybook.app.queries.inbox import ReviewRecord
from waybook.app.queries.plans.plan import (
    HistoryEntry,
    PlanBrief,
    PlanDetail,
    Research,
    StepStatusChange,
    step_window,
)
from waybook.core.usage import Totals
from waybook.plan.model import Output, Plan, PlanId, Step, StepId, StepStatus

OPEN = (StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT, StepStatus.FAILED)
REACH = 40


def make_large_plan(steps: int, *, tied: bool = True) -> Plan:
    """Return a plan with just over half of its steps done; `tied` adds dependencies."""
    chance = Random(steps)  # noqa: S311 - not for secrets
    ids = [StepId(str(UUID(int=chance.getrandbits(128), version=4))) for _ in range(steps)]
    at = steps * 11 // 20
    pairs = []
    for place in range(steps):
        done = StepStatus.SKIPPED if chance.random() < 0.03 else StepStatus.COMPLETED
        status = done if place < at else StepStatus.PENDING
        if at <= place < at + len(OPEN):
            status = OPEN[place - at]
        near = range(max(0, place - REACH), place)
        before = sorted(chance.sample(near, min(len(near), chance.randint(1, 3)))) if tied else []
        title = f"Compare the sources on river {place + 1} with what was measured"
        pairs.append((make_step(status, title=title), [ids[n] for n in before]))
    plan = make_plan(*(step for step, _ in pairs))
    tied_steps = tuple(
        step._replace(id=ids[n], depends_on=tuple(pairs[n][1])) for n, step in enumerate(plan.steps)
    )
    usage = Totals(input_tokens=9_000_000, output_tokens=80_000, cost_micros=9_000_000, results=at)
    return plan._replace(
        id=PlanId(str(UUID(int=steps, version=4))), steps=tied_steps, texts={}, usage=usage
    )


def make_plan_detail(plan: Plan, page: int | None = None) -> PlanDetail:
    """Return the content of a plan's page, with a review, outputs, research and history."""
    window = step_window(plan, page)
    return PlanDetail(
        plan=plan,
        now=NOON + timedelta(hours=30),
        stall_threshold=timedelta(minutes=30),
        stalled=(),
        brief=PlanBrief(
            question="Which river is longest? " * 8,
            formatting_notes=None,
            created_at=NOON,
            created_by="ann",
            skill="deep-research",
        ),
        added=3,
        review_record=make_review(plan),
        outputs=[make_output(number) for number in range(1, 4)],
        research=[_research(plan, number) for number in range(20)],
        history=[_happening(number) for number in range(15)],
        page=page,
        status_changes=_moves(window.steps),
    )


def make_review(plan: Plan) -> ReviewRecord | None:
    step = next(plan.steps_with_status(StepStatus.AWAITING_INPUT), None)
    return step and ReviewRecord(
        id=str(UUID(int=7)),
        plan_id=plan.id,
        plan_name=plan.name,
        step_id=step.id,
        step_order=step.order,
        title=step.title,
        attempt=1,
        instructions="Compare them. " * 40,
        summary="They disagree. " * 20,
        questions=["Which one?"],
        result_summary={"rivers": [f"river {n}" for n in range(20)]},
        requested_at=NOON,
        requested_by="ann",
        now=NOON,
    )


def make_output(number: int) -> Output:
    return Output(
        id=str(UUID(int=number)),
        title="The report",
        media_type="text/markdown",
        version=number,
        content_hash="",
        created_at=NOON,
        created_by="ann",
    )


def _research(plan: Plan, number: int) -> Research:
    step_id = plan.steps[number % len(plan.steps)].id if plan.steps else None
    name = f"What the gauges of river {number} say"
    return Research(str(UUID(int=number)), step_id, "note", name, 1, False, NOON, "ann", 3, 400)  # noqa: FBT003 - columns of a row


def _happening(number: int) -> HistoryEntry:
    at = NOON + timedelta(minutes=number)
    fields = (number, at, "step_completed", "ann", "mcp", f"agent-{number % 4}")
    return HistoryEntry(*fields, None, number + 1, None, None, None)


def _moves(steps: tuple[Step, ...]) -> list[StepStatusChange]:
    """Return the status changes of these steps; every ninth step has two attempts."""
    moves: list[StepStatusChange] = []
    at = NOON
    for place, step in enumerate(steps):
        if step.status is StepStatus.PENDING:
            continue
        for status in _course(place):
            at += timedelta(minutes=1 + place % 7, hours=9 * (place % 50 == 49))
            moves.append(StepStatusChange(step.id, at, status, "ann", "a"))
    return moves


def _course(place: int) -> list[StepStatus]:
    once = [StepStatus.IN_PROGRESS, StepStatus.COMPLETED]
    if place % 9 == 0:
        return [StepStatus.IN_PROGRESS, StepStatus.FAILED, StepStatus.PENDING, *once]
    if place % 11 == 0:
        return [StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT, StepStatus.COMPLETED]
    return once
