"""Places the boxes of a diagram, and routes edges between and around them as SVG paths."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from waybook.dag.diagram.coordinates import Point, Route, Routes, assign_tracks
from waybook.dag.diagram.layers import (
    Grid,
    Pairs,
    Stacks,
    grid_of,
    layers_of,
    stack_siblings,
    thin_edges,
)
from waybook.dag.diagram.model import (
    STACK_FROM,
    Diagram,
    Dimensions,
    columns_for,
    columns_in,
    dimensions_for,
)


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int
    lane: int
    steps: tuple[int, ...]
    layer: int


class EdgeLine(NamedTuple):
    source: int
    target: int
    route: Route


class Frame(NamedTuple):
    x: int
    y: int
    width: int
    height: int
    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    sketch: Diagram
    measures: Dimensions
    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[EdgeLine, ...]
    frames: tuple[Frame, ...]
    transitions: tuple[EdgeLine, ...]
    undrawn: int = 0


_RADIUS = 7
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
    for here, there, behind in zip(points, points[1:], [*points[2:], None], strict=False):
        dx, dy = there[0] - here[0], there[1] - here[1]
        if dx and dy:
            parts.append(f"c{_format_numbers(dx // 2, 0, dx // 2, dy, dx, dy)}")
            continue
        turn = 0
        if behind and (there[0] == behind[0] or there[1] == behind[1]):
            turn = min(_RADIUS, _length(here, there) // 2, _length(there, behind) // 2)
        dx, dy = _toward(here, there, _length(here, there) - cut - turn)
        if dx or dy:
            parts.append(f"h{dx}" if dx else f"v{dy}")
        if turn and behind:
            first, second = _toward(here, there, turn), _toward(there, behind, turn)
            parts.append(f"q{_format_numbers(*first, first[0] + second[0], first[1] + second[1])}")
        cut = turn
    return "".join(parts)


def _without_repetition(way: Route) -> list[Point]:
    """Leave out repeated points, and points on a straight line between two others."""
    points = [way[0]]
    for point in way[1:]:
        if point == points[-1]:
            continue
        if len(points) > 1 and any(
            a == b == c for a, b, c in zip(*points[-2:], point, strict=True)
        ):
            points.pop()
        points.append(point)
    return points


def _length(first: Point, other: Point) -> int:
    return abs(first[0] - other[0]) + abs(first[1] - other[1])


def _toward(start: Point, other: Point, far: int) -> Point:
    dx, dy = other[0] - start[0], other[1] - start[1]
    return ((dx > 0) - (dx < 0)) * far, ((dy > 0) - (dy < 0)) * far


def _format_numbers(*values: int) -> str:
    """Return numbers as SVG path data, with spaces only where needed.

    >>> _format_numbers(1, -2, 3)
    '1-2 3'
    """
    return "".join(
        f"{value}" if value < 0 or not place else f" {value}" for place, value in enumerate(values)
    )


def is_detour(way: Route) -> bool:
    """Return whether a route goes around the boxes. Its second line is then vertical.

    >>> is_detour(((0, 0), (40, 30))), is_detour(((0, 0), (9, 0), (9, 30), (40, 30)))
    (False, True)
    """
    return way[1][0] == way[2][0] if len(way) > 2 else False  # noqa: PLR2004 - a straight route has two points


def arrowhead_data(way: Route) -> str:
    """Return the SVG path of the arrowhead at the end of a route.

    >>> arrowhead_data(((0, 0), (40, 0))), arrowhead_data(((0, 0), (0, 20)))
    ('M40 0l-7-4v8z', 'M0 20l-4-7h8z')
    """
    x, y = way[-1]
    if way[-2][0] == x:
        return f"M{x} {y}l{_format_numbers(-HEAD_HALF, -HEAD_LENGTH)}h{2 * HEAD_HALF}z"
    return f"M{x} {y}l{_format_numbers(-HEAD_LENGTH, -HEAD_HALF)}v{2 * HEAD_HALF}z"


def compute_layout(
    sketch: Diagram, *, width: int | None = None, stack_from: int = STACK_FROM
) -> Layout:
    """Compute the layout of a diagram for a page of this width.

    At least `stack_from` steps of one kind with the same neighbors are drawn as one stack.
    """
    stacks: list[tuple[Stacks, Pairs, list[int]]] = []
    undrawn = 0
    for lane in sketch.lanes:
        boxes, edges = ((), []) if lane.is_collapsed else stack_siblings(lane, stack_from)
        drawn, left_out = thin_edges(len(boxes), edges)
        stacks.append((boxes, drawn, layers_of(len(boxes), drawn)))
        undrawn += left_out
    measures = dimensions_for(sketch, sum(len(boxes) for boxes, _, _ in stacks))
    if width is None:
        # The number of boxes in each column, in order.
        rows = ([count for _, count in sorted(Counter(layer).items())] for *_, layer in stacks)
        columns = max((columns_for(counts, measures) for counts in rows), default=1)
    else:
        columns = columns_in(width, measures)
    insides = [
        (boxes, grid_of(layer, edges, columns, measures.longest_passing) if boxes else None)
        for boxes, edges, layer in stacks
    ]
    return _arranged(sketch, measures, insides, undrawn)


def _arranged(
    sketch: Diagram,
    measures: Dimensions,
    insides: list[tuple[Stacks, Grid | None]],
    undrawn: int,
) -> Layout:
    """Place the lanes one below the other, and draw the transitions between them."""
    framed = len(sketch.lanes) > 1 or any(lane.name for lane in sketch.lanes)
    routes = [Routes(grid, measures) if grid else None for _, grid in insides]
    place = {lane.slug: number for number, lane in enumerate(sketch.lanes)}
    ways = [(place[source], place[target]) for source, target in sketch.transitions if framed]
    far = {n: (2 * s, 2 * t) for n, (s, t) in enumerate(ways) if t > s + 1}
    tracks, count = assign_tracks(far)
    left, top = measures.margin + count * 2 * measures.pitch, measures.margin
    wide = max((inside.width for inside in routes if inside), default=0)
    padding, heading = (measures.padding, measures.heading) if framed else (0, 0)
    wide = 2 * padding + (max(wide, measures.narrowest) if framed else wide)
    frames, boxes, lines = list[Frame](), list[Box](), list[EdgeLine]()
    for number, ((stacks, grid), inside) in enumerate(zip(insides, routes, strict=True)):
        high = heading + 2 * padding + (inside.height if inside else 0)
        frames.append(Frame(left, top, wide, high, number))
        x, y, first = left + padding, top + padding + heading, len(boxes)
        top += high + measures.lane_gap
        if not (grid and inside):
            continue
        size = measures.box_width, measures.box_height
        for box, steps in enumerate(stacks):
            box_y = y + inside.middle(box) - measures.box_height // 2
            boxes.append(Box(x + inside.left(box), box_y, *size, number, steps, grid.layer[box]))
        for source, target in grid.edges:
            route = tuple([(x + a, y + b) for a, b in inside.route(source, target)])
            lines.append(EdgeLine(first + source, first + target, route))
    return Layout(
        sketch=sketch,
        measures=measures,
        width=left + (wide if frames else 0) + measures.margin,
        height=top - (measures.lane_gap if frames else 0) + measures.margin,
        boxes=tuple(boxes),
        lines=tuple(lines),
        frames=tuple(frames) if framed else (),
        transitions=tuple(
            EdgeLine(s, t, _way_on(frames[s], frames[t], tracks.get(number), measures))
            for number, (s, t) in enumerate(ways)
        ),
        undrawn=undrawn,
    )


def _way_on(source: Frame, target: Frame, track: int | None, measures: Dimensions) -> Route:
    """Return the route between two lanes: straight down or, with `track`, along the left edge."""
    if track is None:
        across = source.x + 2 * measures.padding
        return ((across, source.y + source.height), (across, target.y))
    side, half = measures.margin + 2 * measures.pitch * track, measures.heading // 2
    out, into = source.y + half, target.y + half
    return ((source.x, out), (side, out), (side, into), (target.x, into))
