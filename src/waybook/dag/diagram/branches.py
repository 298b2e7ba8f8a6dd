"""Draws branching conditions: lines to the steps that they skip to or repeat, and a list."""

from collections.abc import Iterator
from typing import Final

from waybook.dag.diagram.boxes import element, text
from waybook.dag.diagram.dimensions import WORD_SIZE, text_width, truncate
from waybook.dag.diagram.routing import Box, Layout
from waybook.dag.diagram.status_marks import BRANCH_MARK, Annotations, Branch

MAX_LISTED: Final = 6
LINE_HEIGHT: Final = 18
LEFT: Final = 14
MAX_LINE_WIDTH: Final = 700
#: Low enough that the lines end above the list.
BULGE: Final = 16
#: Half of the width in pixels of the arrowhead of a loop.
HEAD: Final = 4


def branches_of(layout: Layout, marks: Annotations) -> list[Branch]:
    drawn = {(lane.slug, step.key) for lane in layout.sketch.lanes for step in lane.steps}
    return [branch for branch in marks.branches if (branch.stage, branch.source) in drawn]


def branch_lines(layout: Layout, marks: Annotations) -> Iterator[str]:
    """Yield a dashed line for each condition that skips to a step, and an arrow for each loop."""
    if not marks.branches:
        return
    boxes = {
        (layout.sketch.lanes[box.lane].slug, layout.sketch.lanes[box.lane].steps[step].key): box
        for box in layout.boxes
        for step in box.steps
    }
    for branch in branches_of(layout, marks):
        source = boxes.get((branch.stage, branch.source))
        target = boxes.get((branch.stage, branch.target or ""))
        if source and target and branch.is_loop:
            yield element("path", class_="branch loop", d=_loop(source, target))
        elif source and target and source != target:
            yield element("path", class_="branch", d=_curve(source, target))


def _curve(source: Box, target: Box) -> str:
    """Return a curve from the bottom of one box to the top or bottom of another."""
    x, y = source.x + source.width * 3 // 4, source.y + source.height
    to_x = target.x + target.width // 4
    if target.y > y:
        middle = (target.y - y) // 2
        return f"M{x} {y}C{x} {y + middle} {to_x} {target.y - middle} {to_x} {target.y}"
    to_y = target.y + target.height
    low = max(y, to_y) + BULGE
    return f"M{x} {y}C{x} {low} {to_x} {low} {to_x} {to_y}"


def _loop(source: Box, target: Box) -> str:
    """Return a curve below the boxes, from one box back to an earlier one."""
    x, y = source.x + source.width * 3 // 4, source.y + source.height
    to_x, to_y = target.x + target.width // 4, target.y + target.height
    low = max(y, to_y) + BULGE
    head = f"M{to_x - HEAD} {to_y + 2 * HEAD}L{to_x} {to_y}L{to_x + HEAD} {to_y + 2 * HEAD}"
    return f"M{x} {y}C{x} {low} {to_x} {low} {to_x} {to_y}{head}"


def branch_list(layout: Layout, marks: Annotations, top: int) -> tuple[str, int, int]:
    branches = branches_of(layout, marks)
    lines = [f"{BRANCH_MARK} {branch.text}" for branch in branches[:MAX_LISTED]]
    if len(branches) > MAX_LISTED:
        lines.append(f"and {len(branches) - MAX_LISTED} more conditions")
    shown = [truncate(line, MAX_LINE_WIDTH, WORD_SIZE) for line in lines]
    width = max((round(text_width(line, WORD_SIZE)) for line in shown), default=-2 * LEFT)
    drawn = "".join(
        text(LEFT, top + LINE_HEIGHT * number + 12, line, "note")
        for number, line in enumerate(shown)
    )
    height = LINE_HEIGHT * len(shown) + 6 if shown else 0
    return drawn, width + 2 * LEFT, height
