"""Map on the page of a run. Current stages are expanded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.runs.run import RunDetail
from waybook.app.request.layout_worker import DrawingJob, Links
from waybook.dag.diagram.layers import box_of
from waybook.dag.diagram.model import Lane, exceeds, steps_around
from waybook.transport.http.dashboard.runs.run_stages import current_stages
from waybook.transport.http.html.urls import run_step_url

#: Maximum number of boxes of a stage. In a larger stage, only the part around the current step is
#: drawn.
MAX_BOXES: Final = 100
#: At this layout width, text keeps its size on a usual page.
MAP_WIDTH: Final = 1120
MAX_PARAMETER_LENGTH: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMap:
    job: DrawingJob
    #: Numbers of the expanded stages, such as "1.3".
    parameter: str
    center: str | None
    #: Stage and step around which a large stage is drawn, such as "1.45".
    near: str
    omitted: int


def run_map(detail: RunDetail, parameter: str | None, near: str | None = None) -> RunMap:
    run_id, order = detail.run.id, detail.compiled_dag.order
    expanded = current_stages(detail)
    if parameter is not None:
        numbers = {*parameter[:MAX_PARAMETER_LENGTH].split(".")}
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
        focus, drawn = _focus(lane, statuses), lane
        if exceeds(lane, MAX_BOXES):
            places = {f"{stage}.{n}": step.key for n, step in enumerate(lane.steps, 1)}
            drawn, key = _window(lane, statuses, places.get(near or ""), focus)
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
    return RunMap(
        job=DrawingJob(shown, width=MAP_WIDTH, links=links, live=True),
        parameter=_parameter(order, expanded),
        center=center,
        near=drawn_near,
        omitted=omitted,
    )


def _parameter(order: Collection[str], expanded: Collection[str]) -> str:
    return ".".join(str(n) for n, slug in enumerate(order, 1) if slug in expanded) or "0"


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
