"""What the page of a plan shows, ready to be put into its template."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from waybook.plan.budget import Share, shares, warning
from waybook.plan.derive import derive_plan_status
from waybook.plan.model import Step
from waybook.plan.modify import MODIFIABLE
from waybook.plan.output import Output, latest
from waybook.plan.progress import count_done, outcome, percent
from waybook.plan.stalls import last_sign_of_life, threshold
from waybook.plan.states import CLOSED_PLAN, StepStatus
from waybook.record.usage import dollars
from waybook.transport.web.dashboard.cards import DecisionCard, decision_card
from waybook.transport.web.dashboard.history import Deed, deeds_of
from waybook.transport.web.dashboard.overview import Row, overview_of
from waybook.transport.web.dashboard.plan_map import PlanMap, map_of
from waybook.transport.web.dashboard.timeline import Line, Timeline, timeline_of
from waybook.usecases.plan_sheet import PAGE, PlanSheet, Window

#: The statuses of steps in the order they are counted.
COUNTED = (
    StepStatus.COMPLETED,
    StepStatus.SKIPPED,
    StepStatus.IN_PROGRESS,
    StepStatus.AWAITING_INPUT,
    StepStatus.FAILED,
    StepStatus.PENDING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step in the list."""

    id: str
    order: int
    name: str
    type: str
    status: str
    attempt: int
    holder: str
    fail_reason: str | None
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """A step that has been silent for too long."""

    id: str
    order: int
    name: str
    holder: str
    since: datetime | None
    silent: timedelta
    allowed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPart:
    name: str
    used: str
    of: str
    percent: int
    warning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    sheet: PlanSheet
    derived: str
    outcome: str | None
    done: int
    total: int
    percent: int
    counts: dict[str, int]
    stalled: list[Stalled]
    #: What waits for a person.
    card: DecisionCard | None
    map: PlanMap
    overview: list[Row]
    window: Window
    rows: list[StepRow]
    timeline: Timeline
    outputs: list[Output]
    budget: list[BudgetPart]
    history: list[Deed]
    #: Whether it may be changed now.
    modifiable: bool
    over: bool


def plan_view(sheet: PlanSheet, svg: str | None = None) -> PlanView:
    """Make everything that is shown from what was read, and from its map if it is drawn."""
    plan = sheet.plan
    statuses = plan.statuses()
    done, total = count_done(statuses), len(statuses)
    found = Counter(statuses)
    timeline = timeline_of(sheet.moves, sheet.now)
    return PlanView(
        sheet=sheet,
        derived=str(derive_plan_status(statuses)),
        outcome=outcome(plan.status, statuses),
        done=done,
        total=total,
        percent=percent(done, total),
        counts={str(status): found[status] for status in COUNTED if found[status]},
        stalled=[_stalled(sheet, step, gap) for step, gap in sheet.stalled],
        card=decision_card(sheet.review) if sheet.review else None,
        map=map_of(sheet, svg),
        overview=overview_of(plan.steps, PAGE) if total > PAGE else [],
        window=sheet.window,
        rows=_rows(sheet, timeline),
        timeline=timeline,
        outputs=latest(sheet.outputs),
        budget=[_part(part) for part in shares(plan.budget, plan.usage)] if plan.budget else [],
        history=deeds_of(sheet.happenings),
        modifiable=plan.status in MODIFIABLE,
        over=plan.status in CLOSED_PLAN,
    )


def _rows(sheet: PlanSheet, timeline: Timeline) -> list[StepRow]:
    silent = {step.id for step, _ in sheet.stalled}
    return [
        StepRow(
            id=step.id,
            order=step.order,
            name=sheet.name_of(step),
            type=str(step.type),
            status="stalled" if step.id in silent else str(step.status),
            attempt=step.attempt,
            holder=holder_of(step),
            fail_reason=step.fail_reason,
            line=timeline.line(step.id),
        )
        for step in sheet.window.steps
    ]


def holder_of(step: Step) -> str:
    """Who holds a step, as they call themselves."""
    if step.held_by is None:
        return ""
    return f"{step.held_by} ({step.held_session})" if step.held_session else step.held_by


def _stalled(sheet: PlanSheet, step: Step, gap: timedelta) -> Stalled:
    return Stalled(
        id=step.id,
        order=step.order,
        name=sheet.name_of(step),
        holder=holder_of(step),
        since=last_sign_of_life(step),
        silent=gap,
        allowed=threshold(sheet.plan, step, sheet.patience),
    )


def _part(part: Share) -> BudgetPart:
    money = part.name == "costUsd"
    used, of = (f"${dollars(n):,.2f}" if money else f"{n:,}" for n in (part.used, part.of))
    return BudgetPart(
        name="money" if money else "tokens",
        used=used,
        of=of,
        percent=part.percent,
        warning=warning(part),
    )
