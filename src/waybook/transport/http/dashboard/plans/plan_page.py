"""Pages of a plan: its present state, its state after any audit entry, and its edit form."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.responses import Response

from waybook.app.queries.audit import step_title
from waybook.app.queries.comments import Subject
from waybook.app.queries.diagrams import plan_drawing
from waybook.app.queries.inbox import ReviewEvidence, read_evidence
from waybook.app.queries.plans.plan import (
    PAGE_SIZE,
    PlanDetail,
    PlanInclude,
    StepStatusChange,
    page_of,
    read_plan_detail,
)
from waybook.app.queries.plans.plan_snapshot import MAX_NAME_LENGTH, past_drawing, read_plan_history
from waybook.app.queries.timeline import Axis, spans_of
from waybook.app.request.caller import Answer
from waybook.app.request.layout_worker import DrawingJob, Links, render
from waybook.core.shown import LOOKS, Shown, shown
from waybook.core.usage import to_dollars
from waybook.dag.diagram.layers import box_of
from waybook.errors import InvalidInput
from waybook.plan.model import MODIFIABLE
from waybook.plan.progress import last_heartbeat, latest, shares, stall_threshold, warning
from waybook.transport.http.dashboard.inbox import decision_card
from waybook.transport.http.dashboard.page import (
    PageRequest,
    error_message,
    error_status,
    is_number,
    redirect,
)
from waybook.transport.http.html.charts import Period, place_burnup
from waybook.transport.http.html.layout import mark_drawing
from waybook.transport.jsonrpc import code_of
from waybook.transport.mcp.prompts import RESUME_PLAN

_MAX_MAP_WIDTH: Final = 1250
#: Width of the timeline of steps, in units of the SVG drawing.
WIDTH: Final = 1000
_TICK_GAP: Final = 160
_MIN_BURNUP: Final = 3
#: Maximum number of steps that the time slider lists.
_MAX_PAST_STEPS: Final = 200


async def plan_page(page: PageRequest) -> Response:
    path = f"/plans/{page.path('plan_id')}"
    ctx, order, state = await page.context(), page.query("step") or "", page.query("state")
    order = order.removeprefix("#")
    if is_number(order) and int(order):
        return redirect(f"{path}?page={page_of(int(order))}#s{order}")
    only = known if (known := shown(state)) is not Shown.UNKNOWN else None
    detail = await read_plan_detail(
        ctx, page.path("plan_id"), PlanInclude.PAGE, page=page.number("page"), only=only
    )
    detail = replace(detail, find=page.query("find") or "")
    review = detail.review_record
    evidence = (await read_evidence(ctx, [review.id]))[review.id] if review else None
    content = plan_content(detail, await page.picture(_map_job(detail)), evidence)
    return await page.render("plan", thread_of=Subject(plan_id=detail.plan.id), **content)


def plan_content(
    detail: PlanDetail, svg: str | None = None, evidence: ReviewEvidence | None = None
) -> dict[str, Any]:
    """Return the template values of a plan page, except the values that every page has."""
    plan, review = detail.plan, detail.review_record
    center = box_of(detail.lane, detail.focus.id) if detail.focus else None
    return {
        "detail": detail,
        "plan": plan,
        "stalled": [
            (step, gap, last_heartbeat(step), stall_threshold(plan, step, detail.stall_threshold))
            for step, gap in detail.stalled
            if detail.states[step.id] is Shown.STALLED
        ],
        "card": decision_card(review, evidence) if review else None,
        "map": Markup(mark_drawing(render(_map_job(detail)) if svg is None else svg)),  # noqa: S704
        "map_center": center or "",
        "grid": build_step_grid([*detail.states.values()]) if len(plan.steps) > PAGE_SIZE else (),
        "timeline": build_timeline(detail.status_changes, detail.now, is_open=not detail.is_closed),
        "outputs": latest(detail.outputs),
        "budget": [
            (share, warning(share))
            for share in (shares(plan.budget, plan.usage) if plan.budget else ())
        ],
        "modifiable": plan.status in MODIFIABLE,
        "orders": {step.id: step.order for step in plan.steps},
        "resume": RESUME_PLAN.format(planId=plan.id).strip(),
        "burned": _burnup(detail),
    }


def _burnup(detail: PlanDetail) -> dict[str, Any] | None:
    """Return a chart of the finished steps and the forecast, if enough steps are finished."""
    start, now, total = detail.brief.created_at, detail.now, len(detail.plan.steps)
    ends = sorted(max(s.completed_at, start) for s in detail.plan.steps if s.completed_at)
    if len(ends) < _MIN_BURNUP:
        return None
    done = [(start, 0), *((at, number) for number, at in enumerate(ends, 1))]
    if detail.is_closed:
        period, cone = Period(start, ends[-1]), None
    else:
        left = detail.forecast.seconds if detail.forecast else None
        cone = None
        if left:
            cone = now + timedelta(seconds=left.low), now + timedelta(seconds=left.high)
        late = max(cone[1] if cone else now, now + (now - start) / 4)
        period = Period(start, late, now)
    label = f"Steps done over time: {len(ends)} of {total}"
    return place_burnup(done, [(start, total)], period, forecast=cone) | {"label": label}


def build_step_grid(states: Sequence[Shown], width: int = PAGE_SIZE) -> list[dict[str, Any]]:
    """Return the rows of the grid that shows all steps; each row has `width` steps.

    A row has one SVG path for each state, which marks the steps in this state.
    """
    rows = []
    for start in range(0, len(states), width):
        part, place, paths = states[start : start + width], 0, dict[str, str]()
        for status, run in groupby(part):
            length = sum(1 for _ in run)
            paths[status] = f"{paths.get(status, '')}M{place} 0h{length}"
            place += length
        drawn = [(status, paths[status]) for status in LOOKS if status in paths]
        row = {"page": start // width + 1, "first": start + 1, "last": start + len(part)}
        rows.append({**row, "paths": drawn})
    return rows


def build_timeline(
    changes: Iterable[StepStatusChange], now: datetime, *, is_open: bool = False
) -> dict[str, Any]:
    """Return the periods of work of each step, and the time axis on which they are drawn.

    The axis of an open plan has room for the work that follows, and a mark at the present.
    """
    spans = spans_of(changes, now)
    axis = Axis([span for of_step in spans.values() for span in of_step], has_room=is_open)
    present = axis.column(now, WIDTH) if is_open and axis.worked else None
    ticks = _ticks(axis.starts(WIDTH), WIDTH if present is None else present)
    drawn = {"cuts": tuple(dict.fromkeys(axis.cuts(WIDTH))), "ticks": ticks, "now": present}
    return {"spans": spans, "axis": axis, **drawn}


def _ticks(starts: Iterable[tuple[datetime, int]], end: int) -> list[tuple[float, str]]:
    """Return the labels of the time axis, with their positions in percent, not too close."""
    ticks, day, last = list[tuple[float, str]](), None, -_TICK_GAP
    for start, x in starts:
        at = start.astimezone(UTC)
        if last + _TICK_GAP <= x <= end - _TICK_GAP:
            name = f"{at:%H:%M}" if at.date() == day else f"{at:%b} {at.day}, {at:%H:%M}"
            ticks.append((x * 100 / WIDTH, name))
            day, last = at.date(), x
    return ticks


def _map_job(detail: PlanDetail) -> DrawingJob:
    links = Links(step_prefix=f"/plans/{detail.plan.id}/steps/")
    return DrawingJob(plan_drawing(detail, detail.lane), _MAX_MAP_WIDTH, links, live=True)


async def plan_history(page: PageRequest) -> Response:
    plan_id, seq, at = page.path("plan_id"), page.query("seq"), page.query("at")
    if seq and not re.fullmatch("[0-9]{1,10}", seq):
        raise InvalidInput("seq must be the number of an audit entry, such as 12", argument="seq")
    try:
        time = datetime.fromisoformat(at) if at else None
    except ValueError:
        message = "at must be a time such as 2026-11-17T14:00, in UTC"
        raise InvalidInput(message, argument="at") from None
    past = await read_plan_history(
        await page.context(),
        plan_id,
        seq=int(seq) if seq else None,
        at=time.replace(tzinfo=UTC) if time and not time.tzinfo else time,
    )
    svg = await page.picture(DrawingJob(past_drawing(past), _MAX_MAP_WIDTH))
    return await page.render(
        "plan_history",
        plan_id=plan_id,
        past=past,
        svg=Markup(svg),  # noqa: S704
        rows=[
            (step_id, past.steps[step_id], step_title(past.steps[step_id])[:MAX_NAME_LENGTH], state)
            for step_id, state in islice(past.states.items(), _MAX_PAST_STEPS)
        ],
    )


Modification: TypeAlias = dict[str, object]

#: Refused form that is shown again, with the error.
FormReply: TypeAlias = dict[str, Any]


def refused_form(answer: Answer, action: str, fields: FormData) -> FormReply:
    typed = {k: v for k, v in fields.items() if isinstance(v, str) and k != "token"}
    message = error_message(answer) or "the change failed"
    shown = {"action": action, "typed": typed, "message": message}
    return {**shown, "code": code_of(answer) or "", "status": error_status(answer)}


def field_text(fields: FormData, name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def modification_arguments(
    plan_id: str, fields: FormData, *modifications: Mapping[str, object]
) -> dict[str, object]:
    args: dict[str, object] = {"planId": plan_id, "modifications": [*modifications]}
    if why := field_text(fields, "rationale"):
        args["modificationRationale"] = why
    return {**args, **seen_revision(fields)}


def seen_revision(fields: FormData) -> dict[str, object]:
    """Return the argument with the revision of the plan that the form was made from."""
    revision = field_text(fields, "revision")
    # A form without a revision is refused, because no plan has the revision -1.
    return {"expectedRevision": int(revision) if is_number(revision) else -1}


def moved(ids: Sequence[str], place: int, *, up: bool) -> list[str]:
    """Return the ids after the id at index `place` was moved up or down by one position."""
    order = [*ids]
    there = max(0, place - 1) if up else min(len(order) - 1, place + 1)
    order[place], order[there] = order[there], order[place]
    return order


async def edit_page(page: PageRequest) -> Response:
    if not page.is_post:
        return await _render(page)
    fields = (await page.form()).fields
    detail, action = await _read(page), field_text(fields, "action")
    modification = _modification(detail, action, fields)
    arguments = modification_arguments(detail.plan.id, fields, modification)
    answer = await page.call_tool("modify_plan", arguments)
    if answer.is_error:
        return await _render(page, refused_form(answer, action, fields))
    path = f"/plans/{detail.plan.id}"
    if action == "add_steps":
        return redirect(path)
    way, _, step = field_text(fields, "move").partition(":")
    old = next((s.order for s in detail.plan.steps if s.id == step), None)
    if old is None:
        return redirect(f"{path}/edit")
    order = max(1, old - 1) if way == "up" else min(len(detail.plan.steps), old + 1)
    # The URL has no fragment, because browsers ignore autofocus in a URL with a fragment.
    return redirect(f"{path}/edit?{urlencode({'moved': order, 'way': way})}")


async def _read(page: PageRequest) -> PlanDetail:
    return await read_plan_detail(await page.context(), page.path("plan_id"), PlanInclude.NAMES)


async def _render(page: PageRequest, reply: FormReply | None = None) -> Response:
    detail = await _read(page)
    plan = detail.plan
    steps = {str(step.id): step for step in plan.steps}
    order = reply["typed"].get("order", "").split(",") if reply else []
    budget, cost = plan.budget, ""
    if budget and budget.cost_micros is not None:
        cost = f"{to_dollars(budget.cost_micros):g}"
    return await page.render(
        "edit_plan",
        status=reply["status"] if reply else 200,
        detail=detail,
        plan=plan,
        steps={key: steps[key] for key in order} if sorted(order) == sorted(steps) else steps,
        reply=reply,
        is_modifiable=plan.status in MODIFIABLE,
        budget={"tokens": str((budget and budget.tokens) or ""), "cost": cost},
        # The move button that was pressed last gets the keyboard focus.
        moved=page.number("moved"),
        way=page.query("way") or "",
    )


def _modification(detail: PlanDetail, action: str, fields: FormData) -> Modification:
    match action:
        case "add_steps":
            step = {name: field_text(fields, name) for name in ("stepType", "instructions")}
            if title := field_text(fields, "title"):
                step["title"] = title
            after = field_text(fields, "after")
            place = {"insertAfterOrder": int(after)} if is_number(after) else {}
            return {"action": action, "steps": [step], **place}
        case "set_budget":
            # Empty fields remove the budget.
            limits = {"tokens": field_text(fields, "tokens"), "costUsd": field_text(fields, "cost")}
            budget = {name: number_or_text(text) for name, text in limits.items() if text}
            return {"action": action, **({"budget": budget} if budget else {})}
        case "reorder_steps":
            ids = [str(step.id) for step in detail.plan.steps]
            way, _, step_id = field_text(fields, "move").partition(":")
            if step_id in ids:
                ids = moved(ids, ids.index(step_id), up=way == "up")
            elif order := field_text(fields, "order"):
                ids = order.split(",")
            return {"action": action, "stepIds": ids}
    return {"action": action}


def number_or_text(text: str) -> int | float | str:
    """Return a number or, so that the tool names the error, another text as it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
