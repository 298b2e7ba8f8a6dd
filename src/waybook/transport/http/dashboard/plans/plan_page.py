"""Page of a plan, and its time slider: the plan as it was after any of its audit entries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import Response

from waybook.app.queries.audit import step_title
from waybook.app.queries.diagrams import drawing_of_steps
from waybook.app.queries.inbox import ReviewEvidence, read_evidence
from waybook.app.queries.plans.plan import (
    PAGE_SIZE,
    PlanDetail,
    PlanInclude,
    focus_step,
    read_plan_detail,
)
from waybook.app.queries.plans.plan_history import MAX_NAME_LENGTH, past_drawing, read_plan_history
from waybook.app.request.layout_worker import DrawingJob, Links, render
from waybook.core.short_ids import short_id
from waybook.core.usage import to_dollars
from waybook.dag.diagram.layers import box_of
from waybook.dag.diagram.status_marks import STATUS_SYMBOLS
from waybook.dag.diagram.svg import Drawing
from waybook.errors import InvalidInput
from waybook.plan.model import MODIFIABLE, Step, StepStatus
from waybook.plan.progress import BudgetShare, last_heartbeat, shares, stall_threshold, warning
from waybook.plan.store_output import latest
from waybook.transport.http.dashboard.inbox import decision_card
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.dashboard.timeline import build_timeline, history_lines
from waybook.transport.http.html.fragments import mark_drawing

_MAX_MAP_WIDTH: Final = 1250
_COUNTED_STATUSES: Final = (
    StepStatus.COMPLETED,
    StepStatus.SKIPPED,
    StepStatus.IN_PROGRESS,
    StepStatus.AWAITING_INPUT,
    StepStatus.FAILED,
    StepStatus.PENDING,
)
#: Maximum number of steps that the time slider lists.
_MAX_PAST_STEPS: Final = 200


async def plan_page(page: PageRequest) -> Response:
    ctx, number = await page.context(), page.request.query_params.get("page", "")
    detail = await read_plan_detail(
        ctx,
        page.path("plan_id"),
        PlanInclude.PAGE,
        page=int(number[:9]) if number.isascii() and number.isdecimal() else None,
    )
    review = detail.review_record
    evidence = (await read_evidence(ctx, [review.id]))[review.id] if review else None
    svg = await page.picture(_map_job(detail))
    return await page.render("plan", **plan_content(detail, svg, evidence))


def plan_content(
    detail: PlanDetail, svg: str | None = None, evidence: ReviewEvidence | None = None
) -> dict[str, Any]:
    """Return the values that the template shows besides those of the frame."""
    plan, review, counts = detail.plan, detail.review_record, detail.progress.counts
    step = focus_step(plan)
    center = box_of(detail.lane, step.id) if step else None
    return {
        "detail": detail,
        "plan": plan,
        "counts": {str(s): counts[s] for s in _COUNTED_STATUSES if counts.get(s)},
        "stalled": [
            (step, gap, last_heartbeat(step), stall_threshold(plan, step, detail.stall_threshold))
            for step, gap in detail.stalled
        ],
        "card": decision_card(review, evidence=evidence) if review else None,
        "map": Markup(mark_drawing(render(_map_job(detail)) if svg is None else svg)),  # noqa: S704
        "map_center": short_id(center) if center else "",
        "grid": build_step_grid(plan.steps, PAGE_SIZE) if len(plan.steps) > PAGE_SIZE else (),
        "timeline": build_timeline(detail.status_changes, detail.now),
        "outputs": latest(detail.outputs),
        "budget": [_budget_line(s) for s in shares(plan.budget, plan.usage)] if plan.budget else (),
        "history": history_lines(detail.history),
        "modifiable": plan.status in MODIFIABLE,
    }


def _budget_line(share: BudgetShare) -> tuple[str, int, str | None]:
    if share.name == "costUsd":
        text = f"${to_dollars(share.used):,.2f} of ${to_dollars(share.of):,.2f} money"
    else:
        text = f"{share.used:,} of {share.of:,} tokens"
    return text, share.percent, warning(share)


@dataclass(frozen=True, slots=True)
class _GridRow:
    """Statuses of the steps of one page, each with an SVG path."""

    page: int
    first: int
    last: int
    paths: tuple[tuple[str, str], ...]


def build_step_grid(steps: Sequence[Step], width: int) -> list[_GridRow]:
    rows = []
    for start in range(0, len(steps), width):
        shown, place, paths = steps[start : start + width], 0, dict[str, str]()
        for status, run in groupby(shown, key=lambda step: str(step.status)):
            length = sum(1 for _ in run)
            paths[status] = f"{paths.get(status, '')}M{place} 0h{length}"
            place += length
        drawn = tuple((status, paths[status]) for status in STATUS_SYMBOLS if status in paths)
        rows.append(_GridRow(start // width + 1, start + 1, start + len(shown), drawn))
    return rows


def _map_job(detail: PlanDetail) -> DrawingJob:
    plan, lane = detail.plan, detail.lane
    drawing = drawing_of_steps(plan, lane, detail.stalled_ids, detail.names_of(lane))
    links = Links(step_prefix=f"/plans/{plan.id}/steps/")
    return DrawingJob(_with_short_keys(drawing), _MAX_MAP_WIDTH, links, live=True)


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


async def plan_history(page: PageRequest) -> Response:
    plan_id, seq, at = page.path("plan_id"), page.query("seq"), page.query("at")
    if seq and not (seq.isascii() and seq.isdecimal() and len(seq) <= len("1000000000")):
        raise InvalidInput("seq must be the number of an audit entry, such as 12", argument="seq")
    past = await read_plan_history(
        await page.context(),
        plan_id,
        seq=int(seq) if seq else None,
        at=_entry_time(at) if at else None,
    )
    svg = await page.picture(DrawingJob(past_drawing(past), _MAX_MAP_WIDTH))
    return await page.render(
        "plan_history",
        plan_id=plan_id,
        past=past,
        svg=Markup(svg),  # noqa: S704
        rows=[
            (step_id, step, step_title(step)[:MAX_NAME_LENGTH])
            for step_id, step in islice(past.steps.items(), _MAX_PAST_STEPS)
        ],
    )


def _entry_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        message = "at must be a time such as 2026-11-17T14:00, in UTC"
        raise InvalidInput(message, argument="at") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
