"""The map of a plan on its page: whole, or what is around the step to look at."""

from dataclasses import dataclass

from markupsafe import Markup

from waybook.dag.drawing.measures import STACK_FROM
from waybook.dag.drawing.sketch import Lane
from waybook.dag.drawing.stacks import stack_siblings
from waybook.usecases.drawing_worker import DrawingJob, Links, render
from waybook.usecases.drawings import drawing_of_steps
from waybook.usecases.plan_sheet import PlanDetail, focus_step, visible_names

#: The room a page has for it, in pixels.
MAX_MAP_WIDTH = 1250


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMap:
    svg: Markup
    #: The box to bring into view.
    center: str | None
    shown: int
    total: int

    @property
    def whole(self) -> bool:
        return self.shown == self.total


def map_job(sheet: PlanDetail) -> DrawingJob:
    """Return the map to be drawn, every box a link to its step."""
    plan, silent = sheet.plan, {step.id for step, _ in sheet.stalled}
    drawing = drawing_of_steps(plan, sheet.lane, silent, visible_names(sheet))
    return DrawingJob(drawing, MAX_MAP_WIDTH, Links(step_prefix=f"/plans/{plan.id}/steps/"))


def draw_plan_map(sheet: PlanDetail, svg: str | None = None) -> PlanMap:
    """Return the map of the page; it is drawn here unless it has been drawn already."""
    plan, step = sheet.plan, focus_step(sheet.plan)
    drawn = render(map_job(sheet)) if svg is None else svg
    return PlanMap(
        # The drawing escapes every text by itself.
        svg=Markup(drawn),  # noqa: S704
        center=_box_of(sheet.lane, step.id) if step else None,
        shown=len(sheet.lane.steps),
        total=len(plan.steps),
    )


def _box_of(lane: Lane, key: str) -> str | None:
    """The step by which the box that a step is in is known."""
    place = next((n for n, step in enumerate(lane.steps) if step.key == key), None)
    boxes = (steps for steps in stack_siblings(lane, STACK_FROM).boxes if place in steps)
    return next((lane.steps[steps[0]].key for steps in boxes), None)
