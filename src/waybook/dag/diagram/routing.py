"""Places the boxes of a diagram, and routes edges between and around them as SVG paths."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from waybook.dag.diagram.coordinates import (
    Gaps,
    VerticalPlacement,
    assign_tracks,
    extent,
    gaps_of,
    place_vertically,
    track_offset,
)
from waybook.dag.diagram.layers import (
    Grid,
    StackedLane,
    grid_of,
    layers_of,
    order_columns,
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

Point: TypeAlias = tuple[int, int]
#: Points of a route. A straight line joins two successive points with the same x or y; a curve
#: joins any others.
Route: TypeAlias = tuple[Point, ...]


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
    for number in range(1, len(points)):
        here, there = points[number - 1], points[number]
        if here[0] != there[0] and here[1] != there[1]:
            dx, dy = there[0] - here[0], there[1] - here[1]
            parts.append(f"c{_format_numbers(dx // 2, 0, dx // 2, dy, dx, dy)}")
            continue
        behind = points[number + 1] if number + 1 < len(points) else None
        turn = _turn(here, there, behind)
        parts.append(_straight(here, there, cut + turn))
        cut = turn
        if turn and behind:
            first, second = _toward(here, there, turn), _toward(there, behind, turn)
            parts.append(f"q{_format_numbers(*first, first[0] + second[0], first[1] + second[1])}")
    return "".join(parts)


def _without_repetition(way: Route) -> list[Point]:
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
    if behind is None or (there[0] != behind[0] and there[1] != behind[1]):
        return 0
    return min(_RADIUS, _length(here, there) // 2, _length(there, behind) // 2)


def _length(first: Point, other: Point) -> int:
    return abs(first[0] - other[0]) + abs(first[1] - other[1])


def _toward(start: Point, other: Point, far: int) -> Point:
    dx, dy = other[0] - start[0], other[1] - start[1]
    return ((dx > 0) - (dx < 0)) * far, ((dy > 0) - (dy < 0)) * far


def _straight(here: Point, there: Point, shorter: int) -> str:
    dx, dy = _toward(here, there, _length(here, there) - shorter)
    if dx:
        return f"h{dx}"
    return f"v{dy}" if dy else ""


def _format_numbers(*values: int) -> str:
    """Return numbers as SVG path data, with spaces only where needed.

    >>> _format_numbers(1, -2, 3)
    '1-2 3'
    """
    return "".join(
        f"{value}" if value < 0 or not place else f" {value}" for place, value in enumerate(values)
    )


def is_detour(way: Route) -> bool:
    """Return whether a route goes around the columns.

    >>> is_detour(((0, 0), (40, 30))), is_detour(((0, 0), (9, 0), (9, 30), (40, 30)))
    (False, True)
    """
    return way[1][0] == way[2][0] if len(way) > 2 else False  # noqa: PLR2004 - a straight one has two


def arrowhead_data(way: Route) -> str:
    """Return the SVG path of the arrowhead at the end of a route.

    >>> arrowhead_data(((0, 0), (40, 0))), arrowhead_data(((0, 0), (0, 20)))
    ('M40 0l-7-4v8z', 'M0 20l-4-7h8z')
    """
    x, y = way[-1]
    if way[-2][0] == x:
        return f"M{x} {y}l{_format_numbers(-HEAD_HALF, -HEAD_LENGTH)}h{2 * HEAD_HALF}z"
    return f"M{x} {y}l{_format_numbers(-HEAD_LENGTH, -HEAD_HALF)}v{2 * HEAD_HALF}z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corridors:
    """Space for the lines that run below each row of a diagram and along its left edge."""

    tops: list[int]
    height: int
    along: Mapping[tuple[int, int], int]
    gutter: Mapping[int, int]
    gutter_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    grid: Grid
    rows: VerticalPlacement
    gaps: Gaps
    corridors: Corridors
    measures: Dimensions

    def left(self, box: int) -> int:
        return self.corridors.gutter_width + self.gaps.columns[self.grid.column(box)]

    def middle(self, item: int) -> int:
        return self.corridors.tops[self.grid.band(item)] + self.rows.middle[item]

    def through(self, source: int, target: int) -> Route:
        way = [(self.left(source) + self.measures.box_width, self.middle(source))]
        for item in self.grid.through[source, target][1:-1]:
            left, height = self.left(item), self.middle(item)
            way += [(left, height), (left + self.measures.box_width, height)]
        return (*way, (self.left(target), self.middle(target)))

    def detour(self, source: int, target: int) -> Route:
        grid, corridors, shift = self.grid, self.corridors, self.corridors.gutter_width
        above, below = grid.band(source), grid.band(target)
        out = shift + self.gaps.exit_x(source, (above, grid.column(source) + 1))
        into = shift + self.gaps.entry_x((target, below > above), (below, grid.column(target)))
        along = corridors.along[source, above]
        way = [(self.left(source) + self.measures.box_width, self.middle(source))]
        way += [(out, self.middle(source)), (out, along)]
        if below > above + 1:
            gutter = corridors.gutter[source]
            way += [(gutter, along), (gutter, corridors.along[source, below - 1])]
        way += [(into, way[-1][1]), (into, self.middle(target))]
        return (*way, (self.left(target), self.middle(target)))


def routes_of(grid: Grid, rows: VerticalPlacement, measures: Dimensions) -> Routes:
    gaps = gaps_of(grid, rows.middle, measures)
    corridors = _corridors(grid, rows, gaps, measures)
    return Routes(grid=grid, rows=rows, gaps=gaps, corridors=corridors, measures=measures)


def _corridors(grid: Grid, rows: VerticalPlacement, gaps: Gaps, measures: Dimensions) -> Corridors:
    met: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    far: dict[int, list[int]] = defaultdict(list)
    for source, target in grid.detours:
        above, below = grid.band(source), grid.band(target)
        into = gaps.entry_x((target, below > above), (below, grid.column(target)))
        met[above][source].append(gaps.exit_x(source, (above, grid.column(source) + 1)))
        met[max(above, below - 1)][source].append(into)
        if below > above + 1:
            far[source] += [above, below - 1]
            met[above][source].append(0)
            met[below - 1][source].append(0)
    tracks = {
        band: assign_tracks({source: extent(places) for source, places in sources.items()})
        for band, sources in met.items()
    }
    gutter, count = assign_tracks({source: extent(bands) for source, bands in far.items()})
    wide = _CORRIDOR_MARGIN + track_offset(count, count, measures.pitch) if count else 0
    tops, along, height = _heights(rows, tracks, measures)
    return Corridors(
        tops=tops,
        height=height,
        along=along,
        gutter={
            source: track_offset(track, count, measures.pitch) for source, track in gutter.items()
        },
        gutter_width=wide,
    )


_CORRIDOR_MARGIN = 12


def _heights(
    rows: VerticalPlacement,
    tracks: Mapping[int, tuple[Mapping[int, int], int]],
    measures: Dimensions,
) -> tuple[list[int], dict[tuple[int, int], int], int]:
    tops, along, top = list[int](), dict[tuple[int, int], int](), 0
    for band, height in enumerate(rows.heights):
        tops.append(top)
        top += height
        track_of, count = tracks.get(band, ({}, 0))
        for source, track in track_of.items():
            along[source, band] = (
                top + _CORRIDOR_MARGIN + track_offset(track, count, measures.pitch)
            )
        last = band == len(rows.heights) - 1
        taken = (
            track_offset(count, count, measures.pitch) + _CORRIDOR_MARGIN * (1 if last else 2)
            if count
            else 0
        )
        top += max(taken, 0 if last else measures.band_gap)
    return tops, along, top


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inside:
    width: int
    height: int
    boxes: list[Box]
    lines: list[EdgeLine]


def compute_layout(
    sketch: Diagram, *, width: int | None = None, stack_from: int = STACK_FROM
) -> Layout:
    """Compute the layout of a diagram for a page of this width.

    At least `stack_from` steps of one kind with the same neighbors are drawn as one stack.
    """
    shown = [
        replace(lane, steps=(), edges=()) if lane.is_collapsed else lane for lane in sketch.lanes
    ]
    stacked_lanes = [stack_siblings(lane, stack_from) for lane in shown]
    thinned = [thin_edges(len(stacked.boxes), stacked.edges) for stacked in stacked_lanes]
    boxes = [
        replace(stacked, edges=few)
        for stacked, (few, _) in zip(stacked_lanes, thinned, strict=True)
    ]
    measures = dimensions_for(sketch, sum(len(stacked.boxes) for stacked in boxes))
    layers = [layers_of(len(stacked.boxes), stacked.edges) for stacked in boxes]
    if width is None:
        # The number of boxes in each column, in order.
        rows = ([count for _, count in sorted(Counter(layer).items())] for layer in layers)
        columns = max((columns_for(counts, measures) for counts in rows), default=1)
    else:
        columns = columns_in(width, measures)
    insides = [
        _inside(number, stacked, layer, columns, measures)
        for number, (stacked, layer) in enumerate(zip(boxes, layers, strict=True))
    ]
    layout = _stacked_lanes(sketch, insides, measures)
    return replace(layout, undrawn=sum(undrawn for _, undrawn in thinned))


def _inside(
    number: int, stacked: StackedLane, layer: list[int], columns: int, measures: Dimensions
) -> _Inside:
    if not stacked.boxes:
        return _Inside(width=0, height=0, boxes=[], lines=[])
    grid = grid_of(layer, stacked.edges, columns, measures.longest_passing)
    routes = routes_of(grid, place_vertically(grid, order_columns(grid), measures), measures)
    half = measures.box_height // 2
    boxes = [
        Box(
            routes.left(box),
            routes.middle(box) - half,
            measures.box_width,
            measures.box_height,
            number,
            steps,
            grid.layer[box],
        )
        for box, steps in enumerate(stacked.boxes)
    ]
    lines = [
        EdgeLine(s, t, routes.through(s, t) if (s, t) in grid.through else routes.detour(s, t))
        for s, t in stacked.edges
    ]
    width = routes.corridors.gutter_width + routes.gaps.columns[-1]
    return _Inside(width=width, height=routes.corridors.height, boxes=boxes, lines=lines)


def _stacked_lanes(sketch: Diagram, insides: list[_Inside], measures: Dimensions) -> Layout:
    framed = len(sketch.lanes) > 1 or any(lane.name for lane in sketch.lanes)
    place = {lane.slug: number for number, lane in enumerate(sketch.lanes)}
    ways = (
        [(place[source], place[target]) for source, target in sketch.transitions] if framed else []
    )
    far = {number: way for number, way in enumerate(ways) if way[1] > way[0] + 1}
    tracks, count = assign_tracks({number: (2 * s, 2 * t) for number, (s, t) in far.items()})
    left = measures.margin + count * 2 * measures.pitch
    frames, top = list[Frame](), measures.margin
    wide = max((inside.width for inside in insides), default=0)
    wide = max(wide, measures.narrowest) if framed else wide
    for number, inside in enumerate(insides):
        height = inside.height + (measures.heading + 2 * measures.padding if framed else 0)
        around = 2 * measures.padding if framed else 0
        frames.append(Frame(left, top, wide + around, height, number))
        top += height + measures.lane_gap
    bottom = top - measures.lane_gap if insides else top
    boxes, lines = _moved(insides, frames, measures if framed else None)
    sides = {
        number: measures.margin + 2 * measures.pitch * track for number, track in tracks.items()
    }
    return Layout(
        sketch=sketch,
        measures=measures,
        width=left + (frames[0].width if frames else 0) + measures.margin,
        height=bottom + measures.margin,
        boxes=tuple(boxes),
        lines=tuple(lines),
        frames=tuple(frames) if framed else (),
        transitions=tuple(
            EdgeLine(s, t, _way_on(frames[s], frames[t], sides.get(number), measures))
            for number, (s, t) in enumerate(ways)
        ),
    )


def _moved(
    insides: list[_Inside], frames: list[Frame], framed: Dimensions | None
) -> tuple[list[Box], list[EdgeLine]]:
    boxes, lines = list[Box](), list[EdgeLine]()
    for inside, frame in zip(insides, frames, strict=True):
        x = frame.x + (framed.padding if framed else 0)
        y = frame.y + (framed.padding + framed.heading if framed else 0)
        first = len(boxes)
        boxes += [box._replace(x=box.x + x, y=box.y + y) for box in inside.boxes]
        lines += [
            EdgeLine(source + first, target + first, tuple([(a + x, b + y) for a, b in way]))
            for source, target, way in inside.lines
        ]
    return boxes, lines


def _way_on(source: Frame, target: Frame, side: int | None, measures: Dimensions) -> Route:
    if side is None:
        across = source.x + 2 * measures.padding
        return ((across, source.y + source.height), (across, target.y))
    out, into = _left_anchor_of(source, measures), _left_anchor_of(target, measures)
    return (out, (side, out[1]), (side, into[1]), into)


def _left_anchor_of(frame: Frame, measures: Dimensions) -> Point:
    return (frame.x, frame.y + measures.heading // 2)
