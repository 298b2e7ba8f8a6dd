"""Layout of random maps: no boxes overlap, and no line crosses a box."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagrams import dense_diagram, lanes, make_chain_of, make_diagram, make_lane, sketches
from waybook.dag.diagram.coordinates import Point
from waybook.dag.diagram.model import Diagram, Lane
from waybook.dag.diagram.routing import (
    Box,
    EdgeLine,
    Frame,
    Layout,
    compute_layout,
    is_detour,
)

WIDTHS = st.sampled_from([None, 100, 500, 1000])
STACKS = st.sampled_from([2, 3, 9])

#: Rectangle in a drawing, as the coordinates (left, top, right, bottom).
Area = tuple[int, int, int, int]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    return compute_layout(draw(sketches()), width=draw(WIDTHS), stack_from=draw(STACKS))


LARGE = [make_chain_of(450), dense_diagram(450), dense_diagram(1600, per_step=1.2, reach=400)]
each_large = pytest.mark.parametrize("sketch", LARGE, ids=["chain", "thicket", "wide"])


def area(box: Box | Frame) -> Area:
    return box.x, box.y, box.x + box.width, box.y + box.height


def meet(first: Area, other: Area) -> bool:
    """Return whether two rectangles overlap; a common border is no overlap."""
    return (
        first[0] < other[2] and other[0] < first[2] and first[1] < other[3] and other[1] < first[3]
    )


def between(point: Point, other: Point) -> Area:
    """Return the rectangle around a line between two points, at least one unit wide and high."""
    (left, right), (top, bottom) = sorted((point[0], other[0])), sorted((point[1], other[1]))
    return left, top, max(right, left + 1), max(bottom, top + 1)


def pieces(line: EdgeLine) -> Iterator[Area]:
    return (between(*ends) for ends in pairwise(line.route))


def check(layout: Layout) -> None:
    check_boxes(layout)
    check_lines(layout)
    check_frames(layout)
    check_extent(layout)


def check_boxes(layout: Layout) -> None:
    """Check that each step is in one box, and that no boxes overlap."""
    for number, lane in enumerate(layout.sketch.lanes):
        drawn = [step for box in layout.boxes if box.lane == number for step in box.steps]
        assert sorted(drawn) == list(range(len(lane.steps)))
        boxes = [box for box in layout.boxes if box.lane == number]
        columns = {x: [box for box in boxes if box.x == x] for x in {box.x for box in boxes}}
        lefts = sorted((x, x + column[0].width) for x, column in columns.items())
        assert all(right <= left for (_, right), (left, _) in pairwise(lefts))
        for column in columns.values():
            column.sort(key=lambda box: box.y)
            assert all(a.y + a.height < b.y for a, b in pairwise(column))


def check_lines(layout: Layout) -> None:
    """Check that each edge connects the borders of its two boxes, and crosses no box."""
    assert {(line.source, line.target) for line in layout.lines} == box_edges(layout)
    rows: dict[int, list[Box]] = {}
    for box in layout.boxes:
        rows.setdefault(box.y // 100, []).append(box)
        rows.setdefault((box.y + box.height) // 100, []).append(box)
    for line in layout.lines:
        source, target = layout.boxes[line.source], layout.boxes[line.target]
        assert source.layer < target.layer
        assert line.route[0] == (source.x + source.width, source.y + source.height // 2)
        assert line.route[-1] == (target.x, target.y + target.height // 2)
        for piece in pieces(line):
            near = (rows.get(row, ()) for row in range(piece[1] // 100, piece[3] // 100 + 1))
            assert not any(meet(piece, area(box)) for boxes in near for box in boxes)


def box_edges(layout: Layout) -> set[tuple[int, int]]:
    place = {
        (box.lane, step): number for number, box in enumerate(layout.boxes) for step in box.steps
    }
    edges = set()
    for number, lane in enumerate(layout.sketch.lanes):
        names = {step.key: order for order, step in enumerate(lane.steps)}
        edges |= {(place[number, names[a]], place[number, names[b]]) for a, b in lane.edges}
    return edges


def check_frames(layout: Layout) -> None:
    """Check that each frame encloses the boxes of its stage, and that no frames overlap."""
    assert all(a.y + a.height < b.y for a, b in pairwise(layout.frames))
    for box in layout.boxes if layout.frames else ():
        assert within(area(box), area(layout.frames[box.lane]))
    for line in layout.lines if layout.frames else ():
        frame = layout.frames[layout.boxes[line.source].lane]
        assert all(within((*point, *point), area(frame)) for point in line.route)
    for way_on in layout.transitions:
        assert way_on.source < way_on.target
        way = (between(*ends) for ends in pairwise(way_on.route))
        assert not any(meet(piece, area(frame)) for piece in way for frame in layout.frames)


def check_extent(layout: Layout) -> None:
    everything = 0, 0, layout.width, layout.height
    ways = [
        *(line.route for line in layout.lines),
        *(way_on.route for way_on in layout.transitions),
    ]
    assert all(within((*point, *point), everything) for way in ways for point in way)
    assert all(within(area(box), everything) for box in layout.boxes)
    assert all(within(area(frame), everything) for frame in layout.frames)


def within(inner: Area, outer: Area) -> bool:
    return (
        inner[0] >= outer[0]
        and inner[1] >= outer[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


@given(layouts())
def test_map_boxes_do_not_overlap_and_lines_avoid_boxes(layout: Layout) -> None:
    check(layout)


@each_large
def test_large_map_has_no_overlaps_and_lines_avoid_boxes(sketch: Diagram) -> None:
    check(compute_layout(sketch))


@given(lanes())
def test_map_layout_places_sibling_steps_in_declared_order(lane: Lane) -> None:
    layout = compute_layout(make_diagram(lane))
    before = {step.key: {a for a, b in lane.edges if b == step.key} for step in lane.steps}
    boxes = {lane.steps[box.steps[0]].key: box for box in layout.boxes}
    for key, other in combinations(boxes, 2):
        if before[key] == before[other] and boxes[key].layer == boxes[other].layer:
            assert boxes[key].y < boxes[other].y


@settings(max_examples=30)
@given(sketches(), WIDTHS)
def test_map_layout_is_identical_when_computed_twice(sketch: Diagram, width: int | None) -> None:
    assert compute_layout(sketch, width=width) == compute_layout(sketch, width=width)


@settings(max_examples=50)
@given(sketches(), st.sampled_from([500, 1000, 1500]))
def test_map_size_grows_at_most_linearly_with_steps_and_edges(sketch: Diagram, width: int) -> None:
    layout = compute_layout(sketch, width=width)
    steps = sum(len(lane.steps) for lane in sketch.lanes)
    edges = sum(len(lane.edges) for lane in sketch.lanes)
    assert layout.width <= width + 300 + 16 * steps
    assert layout.height <= 200 * len(sketch.lanes) + 100 * steps + 20 * edges


def heights(layout: Layout) -> list[int]:
    return sorted({box.y for box in layout.boxes})


def test_long_chain_wraps_into_rows_in_reading_order() -> None:
    layout = compute_layout(make_chain_of(200))
    assert len(heights(layout)) > 5
    read = sorted(layout.boxes, key=lambda box: (box.y, box.x))
    assert [box.steps[0] for box in read] == list(range(200))
    assert 1 < layout.width / layout.height < 2


def test_map_rows_are_split_where_the_fewest_edges_are_cut() -> None:
    keys = list("abcdefghij")
    chain = [*pairwise(keys)]
    layout = compute_layout(
        make_diagram(make_lane(keys, [*chain, ("e", "g"), ("f", "h")])), width=1500
    )
    around = [(keys[a], keys[b]) for a, b, way in layout.lines if is_detour(way)]
    assert around == [("d", "e")]


def test_many_identical_parallel_steps_share_a_single_box() -> None:
    keys = [f"w{number}" for number in range(12)]
    edges = [*(("a", key) for key in keys), *((key, "z") for key in keys)]
    sketch = make_diagram(make_lane(["a", *keys, "z"], edges))
    assert [len(box.steps) for box in compute_layout(sketch).boxes] == [1, 12, 1]
    assert len(compute_layout(sketch, stack_from=13).boxes) == 14


def test_shorter_of_two_paths_is_drawn_next_to_the_common_last_step() -> None:
    layout = compute_layout(
        make_diagram(make_lane("abcxyd", [*pairwise("abcd"), ("x", "y"), ("y", "d")]))
    )
    assert [box.layer for box in layout.boxes] == [0, 1, 2, 1, 2, 3]


def test_parallel_lines_of_a_map_do_not_cross() -> None:
    keys = [*"abcd", *"stuv"]
    edges = [("a", "v"), ("b", "u"), ("c", "t"), ("d", "s")]
    boxes = compute_layout(make_diagram(make_lane(keys, edges))).boxes
    assert [boxes[0].y, boxes[1].y, boxes[2].y, boxes[3].y] == sorted(box.y for box in boxes[:4])
    assert [box.y for box in boxes[4:]] == [box.y for box in reversed(boxes[:4])]


def test_map_has_a_frame_for_each_stage_but_no_frame_for_a_plan() -> None:
    assert compute_layout(make_diagram(make_lane("ab"))).frames == ()
    assert (
        len(
            compute_layout(
                make_diagram(make_lane("ab", slug="x"), make_lane("cd", slug="y"))
            ).frames
        )
        == 2
    )
