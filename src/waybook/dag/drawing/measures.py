"""The measures of a drawing, in pixels: large enough to read, or small enough for thousands."""

from dataclasses import dataclass, replace
from math import sqrt

from waybook.dag.drawing.sketch import Sketch
from waybook.dag.drawing.widths import width_of

#: From so many steps on, a drawing is one of small boxes.
COMPACT_FROM = 400
#: Identical siblings are stacked from so many on.
STACK_FROM = 9
NAME_SIZE, WORD_SIZE = 12, 11
#: Where texts begin in a box: behind the icon.
TEXT_LEFT, TEXT_RIGHT = 30, 8
#: A drawing is about so much wider than high, where there is a choice.
ASPECT = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    box_width: int = 188
    box_height: int = 44
    name_lines: int = 1
    #: Between boxes above each other, between a box and a passing line, between such lines.
    row_gap: int = 14
    passing_gap: int = 9
    line_gap: int = 7
    #: Between columns, and between bands; both grow with the lines that run in them.
    column_gap: int = 44
    band_gap: int = 26
    pitch: int = 6
    #: Around everything; within a frame; for a frame's heading; between frames.
    margin: int = 14
    padding: int = 16
    heading: int = 30
    lane_gap: int = 34
    #: A long edge passes through up to so many columns; a longer one goes round.
    longest_passing: int = 6
    compact: bool = False

    @property
    def name_room(self) -> int:
        """How long a line of a name may be."""
        return self.box_width - TEXT_LEFT - TEXT_RIGHT


COMPACT = Measures(
    box_width=136,
    box_height=24,
    row_gap=9,
    passing_gap=6,
    line_gap=5,
    column_gap=28,
    band_gap=16,
    pitch=4,
    longest_passing=4,
    compact=True,
)


def measures_for(sketch: Sketch) -> Measures:
    """Large boxes with two lines for names that need them; small ones where there are many."""
    if sum(len(lane.steps) for lane in sketch.lanes) >= COMPACT_FROM:
        return COMPACT
    measures, names = Measures(), (step.name for lane in sketch.lanes for step in lane.steps)
    if all(width_of(name, NAME_SIZE) <= measures.name_room for name in names):
        return measures
    return replace(measures, name_lines=2, box_height=measures.box_height + 15)


def columns_for(boxes: int, measures: Measures, width: int | None) -> int:
    """How many columns stand beside each other at most.

    As many as go into `width`; without one, as many as make a page of good proportions.
    """
    across = measures.box_width + measures.column_gap
    if width is not None:
        return max(1, (width - 2 * (measures.margin + measures.padding)) // across)
    down = measures.box_height + measures.band_gap
    return max(6, round(sqrt(boxes * across * down * ASPECT) / across))
