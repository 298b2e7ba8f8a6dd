"""Map on the page of a run. Current stages are expanded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import RunDetail
from waybook.app.request.layout_worker import DrawingJob, Links
from waybook.dag.diagram.layers import stack_siblings
from waybook.dag.diagram.model import STACK_FROM, Lane, exceeds, steps_around
from waybook.transport.http.dashboard.runs.run_stage_view import current_stages
from waybook.transport.http.html.fragments import mark_drawing
from waybook.transport.http.html.run_urls import run_step_url

#: Maximum number of boxes of a stage. In a larger stage, only the part around the current step is
#: drawn.
MAX_BOXES: Final = 100
#: At this layout width, text keeps its size on a usual page.
MAP_WIDTH: Final = 1120
MAX_PARAMETER_LENGTH: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMap:
    svg: Markup
    parameter: str
    center: str | None
    #: Stage and step around which a large stage is drawn, such as "1.45".
    near: str
    omitted: int
    expand_url: str
    current_url: str


@dataclass(frozen=True, slots=True)
class MapPlan:
    job: DrawingJob
    parameter: str
    center: str | None
    near: str
    omitted: int


def expanded_stages(detail: RunDetail, parameter: str | None) -> frozenset[str]:
    if parameter is None:
        return current_stages(detail)
    if parameter == "all":
        return frozenset(detail.compiled_dag.order)
    places = {*parameter[:MAX_PARAMETER_LENGTH].split(".")}
    named = enumerate(detail.compiled_dag.order, 1)
    return frozenset(slug for place, slug in named if str(place) in places)


def plan_map(detail: RunDetail, parameter: str | None, near: str | None = None) -> MapPlan:
    """Return the drawing job for the map of a run."""
    expanded, run_id = expanded_stages(detail, parameter), detail.run.id
    drawing, center = run_drawing(detail), None
    lanes, omitted, drawn_near = list[Lane](), 0, ""
    for stage, lane in enumerate(drawing.diagram.lanes, 1):
        if lane.slug not in expanded:
            lanes.append(replace(lane, is_collapsed=True))
            continue
        statuses = _statuses(detail, lane)
        focus, drawn = _focus(lane, statuses), lane
        if exceeds(lane, MAX_BOXES):
            places = {f"{stage}.{n}": step.key for n, step in enumerate(lane.steps, 1)}
            drawn, key = _window(lane, statuses, places.get(near or ""), focus)
            drawn_near = drawn_near or next(place for place in places if places[place] == key)
        omitted += len(lane.steps) - len(drawn.steps)
        lanes.append(drawn)
        center = center or _box_of(drawn, focus)
    links = Links(
        by_step=tuple(
            ((lane.slug, step.key), run_step_url(run_id, lane.slug, step.key))
            for lane in lanes
            if not lane.is_collapsed
            for step in lane.steps
        ),
        by_heading=tuple(
            (slug, _url(detail, expanded ^ {slug})) for slug in detail.compiled_dag.order
        ),
    )
    shown = replace(drawing, diagram=replace(drawing.diagram, lanes=tuple(lanes)))
    job = DrawingJob(shown, width=MAP_WIDTH, links=links, live=True)
    return MapPlan(job, _parameter(detail, expanded), center, drawn_near, omitted)


def run_map(detail: RunDetail, plan: MapPlan, svg: str) -> RunMap:
    return RunMap(
        svg=Markup(mark_drawing(svg)),  # noqa: S704
        parameter=plan.parameter,
        center=plan.center,
        near=plan.near,
        omitted=plan.omitted,
        expand_url=f"/runs/{detail.run.id}?map=all#map",
        current_url=f"/runs/{detail.run.id}#map",
    )


def _parameter(detail: RunDetail, expanded: Collection[str]) -> str:
    places = [str(n) for n, slug in enumerate(detail.compiled_dag.order, 1) if slug in expanded]
    return ".".join(places) or "0"


def _url(detail: RunDetail, expanded: Collection[str]) -> str:
    return f"/runs/{detail.run.id}?map={_parameter(detail, expanded)}#map"


def _statuses(detail: RunDetail, lane: Lane) -> Mapping[str, str]:
    report = next(item for item in detail.report["stages"] if item["stageSlug"] == lane.slug)
    return {step["stepKey"]: str(step["status"]) for step in report["steps"] or ()}


def _focus(lane: Lane, statuses: Mapping[str, str]) -> str:
    for wanted in ("failed", "in_progress", "not_started"):
        key = next((step.key for step in lane.steps if statuses.get(step.key) == wanted), None)
        if key is not None:
            return key
    return lane.steps[0].key


def _window(
    lane: Lane, statuses: Mapping[str, str], near: str | None, focus: str
) -> tuple[Lane, str]:
    """Return the part of a large stage to draw, and the step in its middle."""
    if near is not None:
        drawn = steps_around(lane, near, MAX_BOXES)
        if any(statuses.get(step.key) != "completed" for step in drawn.steps):
            return drawn, near
    return steps_around(lane, focus, MAX_BOXES), focus


def _box_of(lane: Lane, key: str) -> str | None:
    """Return the id of the map box that contains this step."""
    place = next((n for n, step in enumerate(lane.steps) if step.key == key), None)
    boxes = (steps for steps in stack_siblings(lane, STACK_FROM).boxes if place in steps)
    return next((lane.steps[steps[0]].key for steps in boxes), None)
