"""Computes the position of every box and the route of every edge in a diagram.

The same diagram always gets the same layout.
"""

from collections import Counter
from dataclasses import dataclass, replace

from waybook.dag.diagram.coordinates import assign_tracks, place_vertically
from waybook.dag.diagram.dimensions import Dimensions, columns_for, columns_in, dimensions_for
from waybook.dag.diagram.grid import grid_of, order_columns
from waybook.dag.diagram.layers import StackedLane, layers_of, stack_siblings, thin_edges
from waybook.dag.diagram.model import STACK_FROM, Diagram
from waybook.dag.diagram.routing import (
    Box,
    EdgeLine,
    Frame,
    Layout,
    Point,
    Route,
    TransitionRoute,
    routes_of,
)


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

    At least `stack_from` identical steps are drawn as one stack.
    """
    shown = [
        replace(lane, steps=(), edges=()) if lane.is_collapsed else lane for lane in sketch.lanes
    ]
    stacked_lanes = [stack_siblings(lane, stack_from) for lane in shown]
    thinned = [thin_edges(len(stacked.boxes), stacked.edges) for stacked in stacked_lanes]
    boxes = [
        replace(stacked, edges=few.edges)
        for stacked, few in zip(stacked_lanes, thinned, strict=True)
    ]
    measures = dimensions_for(sketch, sum(len(stacked.boxes) for stacked in boxes))
    layers = [layers_of(len(stacked.boxes), stacked.edges) for stacked in boxes]
    if width is None:
        columns = max((columns_for(_rows(layer), measures) for layer in layers), default=1)
    else:
        columns = columns_in(width, measures)
    insides = [
        _inside(number, stacked, layer, columns, measures)
        for number, (stacked, layer) in enumerate(zip(boxes, layers, strict=True))
    ]
    layout = _stacked_lanes(sketch, insides, measures)
    return replace(layout, undrawn=sum(few.undrawn for few in thinned))


def _rows(layer: list[int]) -> list[int]:
    counts = Counter(layer)
    return [counts[place] for place in range(len(counts))]


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
    framed = _is_framed(sketch)
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
            TransitionRoute(s, t, _way_on(frames[s], frames[t], sides.get(number), measures))
            for number, (s, t) in enumerate(ways)
        ),
    )


def _is_framed(sketch: Diagram) -> bool:
    return len(sketch.lanes) > 1 or any(lane.name for lane in sketch.lanes)


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
