"""What the page of a plan shows, ready to be put into its template."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from waybook.plan.budget import BudgetShare, shares, warning
from waybook.plan.derive import derive_plan_status
from waybook.plan.model import Step
from waybook.plan.modify import MODIFIABLE
from waybook.plan.output import Output, latest
from waybook.plan.progress import count_done, percent, plan_outcome
from waybook.plan.stalls import last_heartbeat, stall_threshold
from waybook.plan.states import CLOSED_PLAN, StepStatus
from waybook.record.usage import to_dollars
from waybook.transport.web.dashboard.cards import DecisionCard, decision_card
from waybook.transport.web.dashboard.history import HistoryRow, history_rows
from waybook.transport.web.dashboard.overview import GridRow, build_step_grid
from waybook.transport.web.dashboard.plan_map import PlanMap, draw_plan_map
from waybook.transport.web.dashboard.timeline import StepTimeline, Timeline, build_timeline
from waybook.usecases.plan_sheet import PAGE_SIZE, PlanDetail, StepWindow

#: The statuses of steps in the order they are counted.
COUNTED_STATUSES = (
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
    line: StepTimeline


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledStep:
    """A step that has been silent for too long."""

    id: str
    order: int
    name: str
    holder: str
    since: datetime | None
    inactive_for: timedelta
    threshold: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPart:
    name: str
    used: str
    of: str
    percent: int
    warning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    sheet: PlanDetail
    derived: str
    outcome: str | None
    done: int
    total: int
    percent: int
    counts: dict[str, int]
    stalled: list[StalledStep]
    #: What waits for a person.
    card: DecisionCard | None
    map: PlanMap
    overview: list[GridRow]
    window: StepWindow
    rows: list[StepRow]
    timeline: Timeline
    outputs: list[Output]
    budget: list[BudgetPart]
    history: list[HistoryRow]
    #: Whether it may be changed now.
    modifiable: bool
    is_closed: bool


def plan_view(sheet: PlanDetail, svg: str | None = None) -> PlanView:
    """Make everything that is shown from what was read, and from its map if it is drawn."""
    plan = sheet.plan
    statuses = plan.statuses()
    done, total = count_done(statuses), len(statuses)
    found = Counter(statuses)
    timeline = build_timeline(sheet.status_changes, sheet.now)
    return PlanView(
        sheet=sheet,
        derived=str(derive_plan_status(statuses)),
        outcome=plan_outcome(plan.status, statuses),
        done=done,
        total=total,
        percent=percent(done, total),
        counts={str(status): found[status] for status in COUNTED_STATUSES if found[status]},
        stalled=[_stalled(sheet, step, gap) for step, gap in sheet.stalled],
        card=decision_card(sheet.review) if sheet.review else None,
        map=draw_plan_map(sheet, svg),
        overview=build_step_grid(plan.steps, PAGE_SIZE) if total > PAGE_SIZE else [],
        window=sheet.window,
        rows=_rows(sheet, timeline),
        timeline=timeline,
        outputs=latest(sheet.outputs),
        budget=[_part(part) for part in shares(plan.budget, plan.usage)] if plan.budget else [],
        history=history_rows(sheet.history),
        modifiable=plan.status in MODIFIABLE,
        is_closed=plan.status in CLOSED_PLAN,
    )


def _rows(sheet: PlanDetail, timeline: Timeline) -> list[StepRow]:
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


def _stalled(sheet: PlanDetail, step: Step, gap: timedelta) -> StalledStep:
    return StalledStep(
        id=step.id,
        order=step.order,
        name=sheet.name_of(step),
        holder=holder_of(step),
        since=last_heartbeat(step),
        inactive_for=gap,
        threshold=stall_threshold(sheet.plan, step, sheet.stall_threshold),
    )


def _part(part: BudgetShare) -> BudgetPart:
    money = part.name == "costUsd"
    used, of = (f"${to_dollars(n):,.2f}" if money else f"{n:,}" for n in (part.used, part.of))
    return BudgetPart(
        name="money" if money else "tokens",
        used=used,
        of=of,
        percent=part.percent,
        warning=warning(part),
    )
