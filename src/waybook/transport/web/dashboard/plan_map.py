"""The map of a plan on its page: whole, or what is around the step to look at."""

from dataclasses import dataclass

from markupsafe import Markup

from waybook.dag.drawing.layout import lay_out
from waybook.dag.drawing.svg import draw
from waybook.dag.drawing.values import Layout
from waybook.usecases.drawings import drawing_of_steps
from waybook.usecases.plan_sheet import PlanSheet, all_names, step_to_look_at

#: The room a page has for it, in pixels.
ROOM = 1250


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMap:
    svg: Markup
    #: The box to bring into view.
    centre: str | None
    shown: int
    total: int

    @property
    def whole(self) -> bool:
        return self.shown == self.total


def map_of(sheet: PlanSheet) -> PlanMap:
    """Draw the map, every box a link to its step."""
    plan, silent = sheet.plan, {step.id for step, _ in sheet.stalled}
    drawing = drawing_of_steps(plan, sheet.lane, silent, all_names(sheet))
    layout = lay_out(drawing.sketch, width=ROOM)
    svg = draw(layout, drawing.marks, address=lambda _, key: f"/plans/{plan.id}/steps/{key}")
    step = step_to_look_at(plan)
    return PlanMap(
        # The drawing escapes every text by itself.
        svg=Markup(svg),  # noqa: S704
        centre=_box_of(layout, step.id) if step else None,
        shown=len(sheet.lane.steps),
        total=len(plan.steps),
    )


def _box_of(layout: Layout, key: str) -> str | None:
    """The step by which the box that a step is in is known."""
    steps = layout.sketch.lanes[0].steps
    place = next((n for n, step in enumerate(steps) if step.key == key), None)
    boxes = (box for box in layout.boxes if place in box.steps)
    return next((steps[box.steps[0]].key for box in boxes), None)
