"""View model of the plan page: status, map, step list, budget and history."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from markupsafe import Markup

from waybook.app.queries.diagrams import drawing_of_steps
from waybook.app.queries.inbox import ReviewEvidence
from waybook.app.queries.plans.plan import PAGE_SIZE, PlanDetail, StepWindow, focus_step
from waybook.app.request.layout_worker import DrawingJob, Links, render
from waybook.core.short_ids import short_id
from waybook.core.usage import to_dollars
from waybook.dag.diagram.layers import stack_siblings
from waybook.dag.diagram.model import STACK_FROM, Lane
from waybook.dag.diagram.status_marks import STATUS_SYMBOLS
from waybook.dag.diagram.svg import Drawing
from waybook.plan.model import MODIFIABLE, Step, StepStatus
from waybook.plan.progress import (
    BudgetShare,
    Progress,
    last_heartbeat,
    shares,
    stall_threshold,
    warning,
)
from waybook.plan.store_output import Output, latest
from waybook.transport.http.dashboard.activity import (
    HistoryRow,
    StepTimeline,
    Timeline,
    build_timeline,
    history_rows,
)
from waybook.transport.http.dashboard.cards import DecisionCard, decision_card
from waybook.transport.http.html.fragments import mark_drawing


@dataclass(frozen=True, slots=True)
class CellRun:
    status: str
    path: str


@dataclass(frozen=True, slots=True)
class GridRow:
    page: int
    first: int
    last: int
    streaks: tuple[CellRun, ...]


def build_step_grid(steps: Sequence[Step], width: int) -> list[GridRow]:
    return [
        _row(number, steps[start : start + width], width)
        for number, start in enumerate(range(0, len(steps), width), start=1)
    ]


def _row(number: int, steps: Sequence[Step], width: int) -> GridRow:
    paths: dict[str, list[str]] = {}
    place = 0
    for status, run in groupby(steps, key=lambda step: str(step.status)):
        length = sum(1 for _ in run)
        paths.setdefault(status, []).append(f"M{place} 0h{length}")
        place += length
    streaks = tuple(
        CellRun(status, "".join(paths[status])) for status in STATUS_SYMBOLS if status in paths
    )
    first = (number - 1) * width + 1
    return GridRow(number, first, first + len(steps) - 1, streaks)


MAX_MAP_WIDTH = 1250


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMap:
    svg: Markup
    center: str | None
    shown: int
    total: int

    @property
    def whole(self) -> bool:
        return self.shown == self.total


def map_job(sheet: PlanDetail) -> DrawingJob:
    plan, lane = sheet.plan, sheet.lane
    drawing = drawing_of_steps(plan, lane, sheet.stalled_ids, sheet.names_of(lane))
    drawing = _with_short_keys(drawing)
    links = Links(step_prefix=f"/plans/{plan.id}/steps/")
    return DrawingJob(drawing, MAX_MAP_WIDTH, links, live=True)


def _with_short_keys(drawing: Drawing) -> Drawing:
    """Replace full ids with short ids, which take much less space in a large map."""
    diagram, marks = drawing.diagram, drawing.annotations
    lanes = tuple(
        replace(
            lane,
            steps=tuple(replace(step, key=short_id(step.key)) for step in lane.steps),
            edges=tuple((short_id(source), short_id(target)) for source, target in lane.edges),
        )
        for lane in diagram.lanes
    )
    steps = {(stage, short_id(key)): mark for (stage, key), mark in marks.steps.items()}
    branches = tuple(
        replace(
            branch, source=short_id(branch.source), target=branch.target and short_id(branch.target)
        )
        for branch in marks.branches
    )
    return Drawing(replace(diagram, lanes=lanes), replace(marks, steps=steps, branches=branches))


def draw_plan_map(sheet: PlanDetail, svg: str | None = None) -> PlanMap:
    plan, step = sheet.plan, focus_step(sheet.plan)
    drawn = render(map_job(sheet)) if svg is None else svg
    return PlanMap(
        svg=Markup(mark_drawing(drawn)),  # noqa: S704
        center=_box_of(sheet.lane, step.id) if step else None,
        shown=len(sheet.lane.steps),
        total=len(plan.steps),
    )


def _box_of(lane: Lane, key: str) -> str | None:
    """Return the id of the map box that contains this step."""
    place = next((n for n, step in enumerate(lane.steps) if step.key == key), None)
    boxes = (steps for steps in stack_siblings(lane, STACK_FROM).boxes if place in steps)
    return next((short_id(lane.steps[steps[0]].key) for steps in boxes), None)


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
    """Step in progress without a heartbeat for longer than its threshold."""

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
    progress: Progress
    counts: dict[str, int]
    stalled: list[StalledStep]
    card: DecisionCard | None
    map: PlanMap
    overview: list[GridRow]
    window: StepWindow
    rows: list[StepRow]
    timeline: Timeline
    outputs: list[Output]
    budget: list[BudgetPart]
    history: list[HistoryRow]
    modifiable: bool
    is_closed: bool


def plan_view(
    sheet: PlanDetail, svg: str | None = None, evidence: ReviewEvidence | None = None
) -> PlanView:
    plan, review = sheet.plan, sheet.review_record
    progress, counts = sheet.progress, sheet.progress.counts
    timeline = build_timeline(sheet.status_changes, sheet.now)
    return PlanView(
        sheet=sheet,
        derived=str(sheet.derived_status),
        outcome=sheet.outcome,
        progress=progress,
        counts={str(s): counts[s] for s in COUNTED_STATUSES if counts.get(s)},
        stalled=[_stalled(sheet, step, gap) for step, gap in sheet.stalled],
        card=decision_card(review, evidence=evidence) if review else None,
        map=draw_plan_map(sheet, svg),
        overview=build_step_grid(plan.steps, PAGE_SIZE) if progress.total > PAGE_SIZE else [],
        window=sheet.window,
        rows=_rows(sheet, timeline),
        timeline=timeline,
        outputs=latest(sheet.outputs),
        budget=[_part(part) for part in shares(plan.budget, plan.usage)] if plan.budget else [],
        history=history_rows(sheet.history),
        modifiable=plan.status in MODIFIABLE,
        is_closed=sheet.is_closed,
    )


def _rows(sheet: PlanDetail, timeline: Timeline) -> list[StepRow]:
    return [
        StepRow(
            id=short_id(step.id),
            order=step.order,
            name=sheet.name_of(step),
            type=str(step.type),
            status="stalled" if step.id in sheet.stalled_ids else str(step.status),
            attempt=step.attempt,
            holder=holder_of(step),
            fail_reason=step.fail_reason,
            line=timeline.line(step.id),
        )
        for step in sheet.window.steps
    ]


def holder_of(step: Step) -> str:
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
