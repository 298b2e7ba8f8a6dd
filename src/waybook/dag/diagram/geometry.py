"""What a layout consists of: boxes, the lines between them, the frames around them.

All coordinates are whole pixels, x to the right and y down.

Ways as path data of SVG: curves, straight lines, round corners; all relative, to be short.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from waybook.dag.diagram.dimensions import Dimensions
from waybook.dag.diagram.model import Diagram

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


RADIUS = 7
#: An arrow's head, its tip where the line ends.
HEAD_LENGTH, HEAD_HALF = 7, 4


def path_data(way: Route) -> str:
    """The path of a way.

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
    """The points where something changes."""
    points = [way[0]]
    for point in way[1:]:
        if point == points[-1]:
            continue
        if len(points) > 1 and _in_line(points[-2], points[-1], point):
            points.pop()
        points.append(point)
    return points


def _in_line(one: Point, other: Point, third: Point) -> bool:
    return one[0] == other[0] == third[0] or one[1] == other[1] == third[1]


def _turn(here: Point, there: Point, behind: Point | None) -> int:
    """How much of a corner is round: less where a side is short, none before a curve."""
    if behind is None or (there[0] != behind[0] and there[1] != behind[1]):
        return 0
    return min(RADIUS, _length(here, there) // 2, _length(there, behind) // 2)


def _length(one: Point, other: Point) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _toward(one: Point, other: Point, far: int) -> Point:
    """So far from one point to the other."""
    dx, dy = other[0] - one[0], other[1] - one[1]
    return ((dx > 0) - (dx < 0)) * far, ((dy > 0) - (dy < 0)) * far


def _straight(here: Point, there: Point, shorter: int) -> str:
    dx, dy = _toward(here, there, _length(here, there) - shorter)
    if dx:
        return f"h{dx}"
    return f"v{dy}" if dy else ""


def format_numbers(*values: int) -> str:
    """Numbers of a path, with a space only where one is needed.

    >>> format_numbers(1, -2, 3)
    '1-2 3'
    """
    return "".join(
        f"{value}" if value < 0 or not place else f" {value}" for place, value in enumerate(values)
    )


def is_detour(way: Route) -> bool:
    """Whether a way leaves the columns: only then does it go up or down in a straight line.

    >>> is_detour(((0, 0), (40, 30))), is_detour(((0, 0), (9, 0), (9, 30), (40, 30)))
    (False, True)
    """
    return way[1][0] == way[2][0] if len(way) > 2 else False  # noqa: PLR2004 - a straight one has two


def arrowhead_data(way: Route) -> str:
    """The head of the arrow at the end of a way.

    >>> arrowhead_data(((0, 0), (40, 0))), arrowhead_data(((0, 0), (0, 20)))
    ('M40 0l-7-4v8z', 'M0 20l-4-7h8z')
    """
    x, y = way[-1]
    if way[-2][0] == x:
        return f"M{x} {y}l{format_numbers(-HEAD_HALF, -HEAD_LENGTH)}h{2 * HEAD_HALF}z"
    return f"M{x} {y}l{format_numbers(-HEAD_LENGTH, -HEAD_HALF)}v{2 * HEAD_HALF}z"
