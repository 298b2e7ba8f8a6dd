"""Geometry of a layout: boxes, lines between them, frames, and SVG path data.

All coordinates are whole pixels, x to the right and y down. Path commands are relative, to keep the
output short.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from waybook.dag.diagram.dimensions import Dimensions
from waybook.dag.diagram.model import Diagram

Point: TypeAlias = tuple[int, int]
#: Route of a line. Segments between points are straight, along x or along y; if both differ, the
#: segment is a curve that begins and ends along x, and stays between the two points.
Route: TypeAlias = tuple[Point, ...]


class Box(NamedTuple):
    """Box of a step, or of a stack of steps with the same neighbors."""

    x: int
    y: int
    width: int
    height: int
    #: Index of its lane.
    lane: int
    #: Indexes of its steps in the lane.
    steps: tuple[int, ...]
    #: Column number, counted through all bands.
    layer: int


class EdgeLine(NamedTuple):
    """Edge between two boxes, by their indexes."""

    source: int
    target: int
    route: Route


class Frame(NamedTuple):
    """Frame around a lane, with space for its name on top."""

    x: int
    y: int
    width: int
    height: int
    lane: int


class TransitionRoute(NamedTuple):
    """Transition between two lanes."""

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
    #: Empty if there is a single lane without a name.
    frames: tuple[Frame, ...]
    transitions: tuple[TransitionRoute, ...]
    #: Number of edges left out because there are too many to distinguish.
    undrawn: int = 0


RADIUS = 7
#: Size of an arrowhead; its tip is at the end of the line.
HEAD_LENGTH, HEAD_HALF = 7, 4


def path_data(way: Route) -> str:
    """Return the SVG path of a route.

    >>> path_data(((0, 0), (40, 30)))
    'M0 0c20 0 20 30 40 30'
    >>> path_data(((0, 0), (20, 0), (20, 50), (0, 50)))
    'M0 0h13q7 0 7 7v36q0 7-7 7h-13'
    """
    points = _without_repetition(way)
    x, y = points[0]
    parts, cut = [f"M{x} {y}"], 0
    for number in range(1, len(points)):
        here, there = points[number - 1], points[number]
        if here[0] != there[0] and here[1] != there[1]:
            dx, dy = there[0] - here[0], there[1] - here[1]
            parts.append(f"c{format_numbers(dx // 2, 0, dx // 2, dy, dx, dy)}")
            continue
        behind = points[number + 1] if number + 1 < len(points) else None
        turn = _turn(here, there, behind)
        parts.append(_straight(here, there, cut + turn))
        cut = turn
        if turn and behind:
            first, second = _toward(here, there, turn), _toward(there, behind, turn)
            parts.append(f"q{format_numbers(*first, first[0] + second[0], first[1] + second[1])}")
    return "".join(parts)


def _without_repetition(way: Route) -> list[Point]:
    """Return the points without repeated and collinear ones."""
    points = [way[0]]
    for point in way[1:]:
        if point == points[-1]:
            continue
        if len(points) > 1 and _in_line(points[-2], points[-1], point):
            points.pop()
        points.append(point)
    return points


def _in_line(first: Point, other: Point, third: Point) -> bool:
    return first[0] == other[0] == third[0] or first[1] == other[1] == third[1]


def _turn(here: Point, there: Point, behind: Point | None) -> int:
    """Return the radius of a corner: smaller if a side is short, 0 before a curve."""
    if behind is None or (there[0] != behind[0] and there[1] != behind[1]):
        return 0
    return min(RADIUS, _length(here, there) // 2, _length(there, behind) // 2)


def _length(first: Point, other: Point) -> int:
    return abs(first[0] - other[0]) + abs(first[1] - other[1])


def _toward(start: Point, other: Point, far: int) -> Point:
    """Return the offset of this length from one point toward the other."""
    dx, dy = other[0] - start[0], other[1] - start[1]
    return ((dx > 0) - (dx < 0)) * far, ((dy > 0) - (dy < 0)) * far


def _straight(here: Point, there: Point, shorter: int) -> str:
    dx, dy = _toward(here, there, _length(here, there) - shorter)
    if dx:
        return f"h{dx}"
    return f"v{dy}" if dy else ""


def format_numbers(*values: int) -> str:
    """Return numbers of a path, with a space only if one is needed.

    >>> format_numbers(1, -2, 3)
    '1-2 3'
    """
    return "".join(
        f"{value}" if value < 0 or not place else f" {value}" for place, value in enumerate(values)
    )


def is_detour(way: Route) -> bool:
    """Return whether a route leaves the columns: only then does it have a vertical segment.

    >>> is_detour(((0, 0), (40, 30))), is_detour(((0, 0), (9, 0), (9, 30), (40, 30)))
    (False, True)
    """
    return way[1][0] == way[2][0] if len(way) > 2 else False  # noqa: PLR2004 - a straight one has two


def arrowhead_data(way: Route) -> str:
    """Return the arrowhead at the end of a route.

    >>> arrowhead_data(((0, 0), (40, 0))), arrowhead_data(((0, 0), (0, 20)))
    ('M40 0l-7-4v8z', 'M0 20l-4-7h8z')
    """
    x, y = way[-1]
    if way[-2][0] == x:
        return f"M{x} {y}l{format_numbers(-HEAD_HALF, -HEAD_LENGTH)}h{2 * HEAD_HALF}z"
    return f"M{x} {y}l{format_numbers(-HEAD_LENGTH, -HEAD_HALF)}v{2 * HEAD_HALF}z"
