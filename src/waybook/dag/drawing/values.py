"""What a layout consists of: boxes, the lines between them, the frames around them.

All coordinates are whole pixels, x to the right and y down.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from waybook.dag.drawing.measures import Dimensions
from waybook.dag.drawing.sketch import Diagram

Point: TypeAlias = tuple[int, int]
#: The way of a line. From point to point it goes straight, along x or along y; where both differ
#: it is a curve that begins and ends along x, and stays between the two points.
Route: TypeAlias = tuple[Point, ...]


class Box(NamedTuple):
    """A step, or a stack of steps that have the same neighbours."""

    x: int
    y: int
    width: int
    height: int
    #: The place of its lane.
    lane: int
    #: The places of its steps in the lane.
    steps: tuple[int, ...]
    #: The column it stands in, counted through all bands.
    layer: int


class EdgeLine(NamedTuple):
    """An edge between two boxes, by their places."""

    source: int
    target: int
    route: Route


class Frame(NamedTuple):
    """What stands around a lane, with room for its name on top."""

    x: int
    y: int
    width: int
    height: int
    lane: int


class TransitionRoute(NamedTuple):
    """A transition between two lanes."""

    source: int
    target: int
    way: Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    sketch: Diagram
    measures: Dimensions
    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[EdgeLine, ...]
    #: None where one lane without a name is all there is.
    frames: tuple[Frame, ...]
    transitions: tuple[TransitionRoute, ...]
    #: Edges that are left out, since there are too many to be told apart.
    undrawn: int = 0
