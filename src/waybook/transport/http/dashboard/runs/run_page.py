"""Page of a run: map, stages, and forms that retry jobs or regenerate documents."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from waybook.app.queries.comments import Subject
from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import JobCount, RunDetail, RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import JOB_STATES
from waybook.app.request.layout_worker import DrawingJob, Links, layout_cost
from waybook.core.durations import format_duration
from waybook.core.shown import LOOKS, Shown, shown, shown_item, tone_of
from waybook.core.usage import format_cost
from waybook.dag.diagram.layers import box_of
from waybook.dag.diagram.model import Lane, exceeds, steps_around
from waybook.dag.progress.report import StageReport, StepReport
from waybook.transport.http.dashboard.inbox import stage_card
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.charts import Period, Span
from waybook.transport.http.html.layout import mark_drawing, run_step_url

STEPS_PER_PAGE: Final = 60
#: If a stage has several pages, only the most urgent steps are shown until a page is chosen.
_URGENT_ROWS: Final = 15
#: Views of a run; the first is the default. The jobs and the documents have pages of their own.
_VIEWS: Final = ("grid", "map", "history")
_MEASURES: Final = ("jobs", "cost", "time")
_HEAT_LEVELS: Final = 4
#: Statuses of steps with their rank, the most urgent first.
_URGENCY: Final = {"failed": 0, "in_progress": 1, "not_started": 2, "completed": 3}

View: TypeAlias = dict[str, Any]


def _current_stages(detail: RunDetail) -> frozenset[str]:
    open_stages = [slug for slug, stage in detail.run.stages.items() if stage.completed_at is None]
    started = sorted(detail.run.stages.values(), key=lambda stage: stage.started_at)
    return frozenset(open_stages or [stage.slug for stage in started[-1:]])


def stage_views(detail: RunDetail) -> list[View]:
    """Return all stages, without the steps."""
    current = _current_stages(detail)
    reports = {report["stageSlug"]: report for report in detail.report["stages"]}
    return [
        {**_stage(detail, reports[slug]), "is_current": slug in current}
        for slug in detail.compiled_dag.order
    ]


def _stage(detail: RunDetail, report: StageReport) -> View:
    slug, dag = report["stageSlug"], detail.compiled_dag
    progress = report["progress"] or {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0}
    return {
        "anchor": f"stage-{dag.order.index(slug) + 1}",
        "slug": slug,
        "name": dag.stage_name(slug),
        "status": detail.state_of_stage(report),
        "report": report,
        "done": progress["completedSteps"],
        "total": progress["totalSteps"] or len(dag.stages[slug].recipe.steps),
        "failed": progress["failedSteps"],
        "running": [str(step["status"]) for step in report["steps"] or ()].count("in_progress"),
        "started": detail.run.stages.get(slug),
        "failures": [failure for failure in detail.failures if failure.stage == slug],
    }


def grid_view(detail: RunDetail, slug: str, params: Mapping[str, str | None]) -> View:
    """Return a page of the steps of a stage whose names contain the text, with their jobs."""
    report = detail.stage_report(slug)
    recipe = detail.compiled_dag.stages[slug].recipe
    names = {step.key: step.name or step.key for step in recipe.steps}
    words, wanted = (params["q"] or "").casefold(), params["state"]
    matching = [s for s in report["steps"] or () if words in names[s["stepKey"]].casefold()]
    states = Counter(map(detail.state_of_step, matching))
    if wanted:
        matching = [step for step in matching if detail.state_of_step(step) is shown(wanted)]
    pages = max(1, ceil(len(matching) / STEPS_PER_PAGE))
    number = min(int(params["page"] or pages == 1), pages)
    listed = matching[(number - 1) * STEPS_PER_PAGE :][:STEPS_PER_PAGE]
    if not number:
        matching.sort(key=lambda step: _URGENCY.get(str(step["status"]), len(_URGENCY)))
        listed = matching[:_URGENT_ROWS]
    return {
        **_stage(detail, report),
        "steps": _step_rows(detail, slug, listed),
        "found": len(matching),
        "page": number,
        "pages": pages,
        "states": {state: states[state] for state in LOOKS if states[state]},
    }


def _step_rows(detail: RunDetail, slug: str, steps: Sequence[StepReport]) -> list[View]:
    recipe = detail.compiled_dag.stages[slug].recipe.steps
    places = {step.key: n for n, step in enumerate(recipe, 1)}
    names = {step.key: step.name or step.key for step in recipe}
    prefix = f"stage-{detail.compiled_dag.order.index(slug) + 1}"
    stage, counts = detail.run.stages.get(slug), defaultdict[tuple[str, str], list[JobCount]](list)
    for row in detail.job_counts:
        if row.stage == slug:
            counts[row.step_key, row.model].append(row)
    return [
        {
            "anchor": f"{prefix}-{places[step['stepKey']]}",
            "key": step["stepKey"],
            "name": names[step["stepKey"]],
            "report": step,
            "state": detail.state_of_step(step),
            "started_at": _time(step["startedAt"]),
            "completed_at": _time(step["completedAt"]),
            "cells": [
                {"model": model, **_cell(detail, counts[step["stepKey"], model])}
                for model in (stage.models if stage else ())
            ],
        }
        for step in steps
    ]


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _cell(detail: RunDetail, rows: Sequence[JobCount]) -> View:
    """Return the state and number of a model's jobs, and the id of the job if it is the only.

    Of several jobs, the state is the first one of `JOB_STATES` that one of them has.
    """
    is_over = detail.run.canceled_at is not None
    states = {shown_item(row.status, is_over=is_over) for row in rows if row.jobs}
    jobs = Counter[str]()
    for row in rows:
        jobs[row.status] += row.jobs
    return {
        "status": next((state for state in (*JOB_STATES, Shown.CANCELED) if state in states), ""),
        "done": jobs["completed"],
        "total": jobs.total() - jobs["superseded"],
        "job_id": rows[0].job_id if jobs.total() == 1 else None,
    }


def model_grid(detail: RunDetail, measure: str) -> View:
    """Return the jobs, or the cost or time of the jobs, of each stage and model."""
    stages, grouped = detail.run.stages, defaultdict[tuple[str, str], list[JobCount]](list)
    for row in detail.job_counts:
        grouped[row.stage, row.model].append(row)
    figures = {
        (row.stage, row.model): row.cost_micros if measure == "cost" else row.seconds
        for row in detail.stage_figures
    }

    def figure(value: float) -> View:
        took = timedelta(seconds=value)
        text = format_cost(round(value)) if measure == "cost" else format_duration(took)
        return {"text": text if value else "", "heat": ceil(_HEAT_LEVELS * value / most)}

    most = max(figures.values(), default=0) or 1
    models = [*dict.fromkeys(model for stage in stages.values() for model in stage.models)]
    rows = []
    for slug in detail.compiled_dag.order:
        cells = [
            {
                "model": model,
                **_cell(detail, grouped[slug, model]),
                **figure(figures.get((slug, model), 0)),
            }
            for model in models
        ]
        rows.append((slug, cells))
    return {"measure": measure, "models": models, "rows": rows}


#: Maximum number of boxes that the map draws for a stage. In a larger stage, only the part around
#: the current step is drawn.
_MAX_BOXES: Final = 100
#: With this width, the text of the map is about as large as the text of the page.
MAP_WIDTH: Final = 1120
_MAX_PARAMETER_LENGTH: Final = 400


def run_map(
    detail: RunDetail, parameter: str | None, near: str | None = None, found: str = ""
) -> tuple[DrawingJob, View]:
    """Return the drawing of the stages, and the other template values of the map.

    `parameter` has the numbers of the expanded stages, such as "1.3". `near` has the numbers of the
    stage and step around which a large stage is drawn, such as "1.45", and `found` those of the
    step that a person looks for.
    """
    run_id, order = detail.run.id, detail.compiled_dag.order
    expanded = _current_stages(detail)
    if parameter is not None:
        numbers = {*parameter[:_MAX_PARAMETER_LENGTH].split(".")}
        named = (slug for n, slug in enumerate(order, 1) if str(n) in numbers)
        expanded = frozenset(order if parameter == "all" else named)
    drawing, center = run_drawing(detail), None
    lanes, omitted, drawn_near = list[Lane](), 0, ""
    for stage, lane in enumerate(drawing.diagram.lanes, 1):
        if lane.slug not in expanded:
            lanes.append(replace(lane, is_collapsed=True))
            continue
        steps = detail.stage_report(lane.slug)["steps"] or ()
        statuses = {step["stepKey"]: str(step["status"]) for step in steps}
        focus = min(
            (s.key for s in lane.steps), key=lambda key: _URGENCY.get(statuses.get(key, ""), 3)
        )
        places = {f"{stage}.{n}": step.key for n, step in enumerate(lane.steps, 1)}
        focus = places.get(found, focus)
        drawn = lane
        if exceeds(lane, _MAX_BOXES):
            key = places.get(found or near or "", focus)
            drawn = steps_around(lane, key, _MAX_BOXES)
            # If all drawn steps are completed, draw the part around the most urgent step instead.
            if not found and all(statuses.get(step.key) == "completed" for step in drawn.steps):
                key, drawn = focus, steps_around(lane, focus, _MAX_BOXES)
            drawn_near = drawn_near or next(place for place in places if places[place] == key)
        omitted += len(lane.steps) - len(drawn.steps)
        lanes.append(drawn)
        center = center or box_of(drawn, focus)
    links = Links(
        by_step=tuple(
            ((lane.slug, step.key), run_step_url(run_id, lane.slug, step.key))
            for lane in lanes
            if not lane.is_collapsed
            for step in lane.steps
        ),
        by_heading=tuple(
            (slug, f"/runs/{run_id}?map={_parameter(order, expanded ^ {slug})}#map")
            for slug in order
        ),
    )
    shown = replace(drawing, diagram=replace(drawing.diagram, lanes=tuple(lanes)))
    view = {
        "parameter": _parameter(order, expanded),
        "center": center,
        "near": drawn_near,
        "omitted": omitted,
    }
    return DrawingJob(shown, width=MAP_WIDTH, links=links, live=True), view


def find_step(detail: RunDetail, text: str) -> str:
    """Return the place of the first step whose name contains the text, such as "1.45", or ""."""
    wanted = text.strip().lower()
    for stage, slug in enumerate(detail.compiled_dag.order, 1):
        graph = detail.compiled_dag.graphs[slug]
        for n, key in enumerate(graph.order, 1):
            if wanted and wanted in f"{key} {graph.steps[key].name or ''}".lower():
                return f"{stage}.{n}"
    return ""


def _parameter(order: Collection[str], expanded: Collection[str]) -> str:
    return ".".join(str(n) for n, slug in enumerate(order, 1) if slug in expanded) or "0"


def run_timeline(detail: RunDetail) -> View | None:
    """Return the jobs of each model over time."""
    times, run = detail.job_times, detail.run
    if not times:
        return None
    is_over = run.completed_at or run.canceled_at
    now, lanes = is_over or detail.now, defaultdict[str, list[Span]](list)
    for job in times:
        end = job.completed_at or now
        text = f"{job.step_key}, {job.model}: {format_duration(end - job.started_at)}"
        url = f"/runs/{run.id}/jobs/{job.id}"
        span = Span(job.started_at, end, tone_of(shown(job.status)), text, url)
        lanes[job.model].append(span)
    start, end = times[0].started_at, max(span.end for lane in lanes.values() for span in lane)
    # The line of now is inside of the chart.
    period = Period(start, end + (end - start) / 40, None if is_over else now)
    return {"lanes": sorted(lanes.items()), "period": period, "total": times[0].total}


async def run_page(page: PageRequest) -> Response:
    params = {"stage": page.query("stage"), "q": page.query("q"), "state": page.query("state")}
    params["page"] = str(page.number("page") or "")
    params |= {"map": page.query("map"), "near": page.query("near"), "find": page.query("find")}
    view, measure = page.query("view"), page.query("by")
    view = "map" if params["map"] else view if view in _VIEWS else _VIEWS[0]
    measure = measure if measure in _MEASURES else _MEASURES[0]
    include = RunInclude.PAGE
    if view == "grid" and measure != "jobs":
        include |= RunInclude.STAGE_FIGURES
    if view == "history":
        include |= RunInclude.FEED
    detail = await read_run_detail(await page.context(), page.path("run_id"), include)
    shown: dict[str, Any] = {}
    if view == "map":
        found = find_step(detail, params["find"] or "")
        stage = params["map"] or found.partition(".")[0] or None
        job, drawn = run_map(detail, stage, params["near"], found)
        svg = Markup(mark_drawing(await page.picture(job)))  # noqa: S704
        shown = {"map": drawn, "map_svg": svg, "found": found}
        params |= {"map": drawn["parameter"], "near": drawn["near"]}
    elif view == "grid":
        cost = layout_cost(detail.compiled_dag.dag)
        shown = await page.run_costly(cost, lambda: _grid(detail, params, measure))
    kept = {name: value for name, value in params.items() if value}
    kept |= {"view": view, "by": measure}
    path = f"/runs/{detail.run.id}"
    return await page.render(
        "run",
        path=path,
        thread_of=Subject(run_id=detail.run.id),
        detail=detail,
        view=view,
        asked=params,
        kept=kept,
        page_url=lambda number: f"{path}?{urlencode({**kept, 'page': number})}#grid",
        card=_feedback_card(detail),
        **shown,
    )


def _grid(detail: RunDetail, params: Mapping[str, str | None], measure: str) -> View:
    stages, text = stage_views(detail), detail.input_text
    current = next((stage["slug"] for stage in stages if stage["is_current"]), stages[0]["slug"])
    slug = next((slug for slug in detail.run.stages if slug == params["stage"]), current)
    return {
        "stages": stages,
        "stage": grid_view(detail, slug, params),
        "by_model": model_grid(detail, measure),
        "input_text": text
        if isinstance(text, str)
        else json.dumps(text, indent=2, ensure_ascii=False),
    }


def _feedback_card(detail: RunDetail) -> View | None:
    stage = detail.run.stages.get(detail.awaiting or "")
    if stage is None:
        return None
    since, models = stage.completed_at or detail.now, ", ".join(stage.models)
    return stage_card(detail.compiled_dag, detail.run, stage.slug, since, models=models)
