"""Places the boxes and edges of one stage or plan in a diagram.

A diagram that is too wide for the page is split into rows. Edges run between the boxes, so that no
line crosses a box.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeAlias

from waybook.dag.diagram.layers import Grid, Item, neighbors
from waybook.dag.diagram.model import Dimensions

#: Weights of a box, a line, and an item without neighbors when their heights are chosen. A line
#: weighs more than a box, because a bend in a line looks worse than a moved box.
BOX_WEIGHT, LINE_WEIGHT, IDLE_WEIGHT = 1.0, 4.0, 0.05


@dataclass(frozen=True, slots=True)
class VerticalPlacement:
    middle: Sequence[int]
    heights: list[int]


def place_vertically(
    grid: Grid, columns: list[list[Item]], measures: Dimensions
) -> VerticalPlacement:
    stacks = [_stack(grid, column, measures) for column in columns]
    heights = [0] * len(grid.starts)
    for band, (_, high) in zip(grid.bands, stacks, strict=True):
        heights[band] = max(heights[band], high)
    slack = [heights[band] - high for band, (_, high) in zip(grid.bands, stacks, strict=True)]
    middle = [0.0] * len(grid.layer)
    for column, (offsets, _), free in zip(columns, stacks, slack, strict=True):
        for item, offset in zip(column, offsets, strict=True):
            middle[item] = offset + free / 2
    for near, way in _passes(grid, len(columns)):
        for place in way:
            if slack[place]:
                _align_column(
                    columns[place], near, middle, (stacks[place][0], slack[place]), grid.boxes
                )
    return VerticalPlacement([round(height) for height in middle], heights)


def _passes(grid: Grid, columns: int) -> Iterator[tuple[Sequence[Sequence[Item]], Sequence[int]]]:
    before, after = neighbors(grid, list(grid.through.values()))
    both = [sources + targets for sources, targets in zip(before, after, strict=True)]
    forth, back = range(columns), range(columns - 1, -1, -1)
    return iter([(before, forth), (after, back), (both, forth), (both, back)])


def _stack(grid: Grid, column: list[Item], measures: Dimensions) -> tuple[list[int], int]:
    offsets, bottom, last = list[int](), 0, None
    for item in column:
        box = grid.is_box(item)
        gap = 0 if last is None else _gap(last, box, measures)
        half = measures.box_height // 2 if box else 0
        offsets.append(bottom + gap + half)
        bottom, last = bottom + gap + (measures.box_height if box else 0), box
    return offsets, bottom


def _gap(first: bool, other: bool, measures: Dimensions) -> int:  # noqa: FBT001 - whether each is a box
    if first and other:
        return measures.row_gap
    return measures.passing_gap if first or other else measures.line_gap


def _align_column(
    column: list[Item],
    near: Sequence[Sequence[Item]],
    middle: list[float],
    room: tuple[list[int], int],
    boxes: int,
) -> None:
    """Move the items of a column toward the mean height of their neighbors, without overlap."""
    offsets, slack = room
    wishes, weights = [], []
    for item, offset in zip(column, offsets, strict=True):
        adjacent = near[item]
        if adjacent:
            wishes.append(sum([middle[other] for other in adjacent]) / len(adjacent) - offset)
            weights.append(BOX_WEIGHT if item < boxes else LINE_WEIGHT)
        else:
            wishes.append(middle[item] - offset)
            weights.append(IDLE_WEIGHT)
    for item, offset, moved in zip(column, offsets, _monotone_fit(wishes, weights), strict=True):
        middle[item] = offset + round(min(max(moved, 0.0), slack))


def _monotone_fit(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to `wishes` by weighted least squares.

    >>> _monotone_fit([1, 4, 2, 5], [1, 1, 1, 1])
    [1, 3.0, 3.0, 5]
    """
    blocks: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        mean, heavy, count = wish, weight, 1
        while blocks and blocks[-1][0] >= mean:
            other, more, many = blocks.pop()
            mean = (mean * heavy + other * more) / (heavy + more)
            heavy, count = heavy + more, count + many
        blocks.append((mean, heavy, count))
    return [mean for mean, _, count in blocks for _ in range(count)]


#: A gap between two columns: the row of the gap, and the column to the right of the gap.
_Gap: TypeAlias = tuple[int, int]

#: Free pixels in a gap: left of the vertical lines, right of these lines, and between them.
BEFORE, BEHIND, BETWEEN = 10, 15, 8
_COMPACT_TRACK_COUNT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    #: For each box, the number of the track in which lines leave the box. The tracks are the places
    #: for vertical lines in a gap, numbered from the left.
    exits: Mapping[int, int]
    #: For each box, the number of the track of the lines from above (True) or from below (False).
    entries: Mapping[tuple[int, bool], int]
    leaving: Mapping[_Gap, int]
    entering: Mapping[_Gap, int]
    #: Left edge of each column, and the right edge of the last one.
    columns: list[int]
    measures: Dimensions

    def exit_x(self, source: int, gap: _Gap) -> int:
        left = self.columns[gap[1] - 1] + self.measures.box_width
        return (
            left + BEFORE + track_offset(self.exits[source], self.leaving[gap], self.measures.pitch)
        )

    def entry_x(self, entry: tuple[int, bool], gap: _Gap) -> int:
        many, pitch = self.entering[gap], self.measures.pitch
        back = track_offset(many, many, pitch) - track_offset(self.entries[entry] + 1, many, pitch)
        return self.columns[gap[1]] - BEHIND - back


def track_offset(number: int, many: int, pitch: int) -> int:
    """Return the horizontal offset of a track in pixels.

    >>> track_offset(3, 4, 6), track_offset(90, 160, 6)
    (18, 180)
    """
    return (
        number * pitch
        if many <= _COMPACT_TRACK_COUNT
        else number * max(2 * many, pitch * _COMPACT_TRACK_COUNT) // many
    )


def gaps_of(grid: Grid, middle: Sequence[int], measures: Dimensions) -> Gaps:
    leaving: dict[_Gap, dict[int, None]] = defaultdict(dict)
    entering: dict[_Gap, dict[tuple[int, bool], None]] = defaultdict(dict)
    for source, target in grid.detours:
        leaving[grid.band(source), grid.column(source) + 1][source] = None
        above = grid.band(target) > grid.band(source)
        entering[grid.band(target), grid.column(target)][target, above] = None
    exits = {
        source: number
        for members in leaving.values()
        for number, source in enumerate(sorted(members, key=lambda box: -middle[box]))
    }
    entries = {
        entry: number
        for members in entering.values()
        for number, entry in enumerate(sorted(members, key=lambda item: _entry_rank(item, middle)))
    }
    many_out = {gap: len(members) for gap, members in leaving.items()}
    many_in = {gap: len(members) for gap, members in entering.items()}
    return Gaps(
        exits=exits,
        entries=entries,
        leaving=many_out,
        entering=many_in,
        columns=_columns(grid, (many_out, many_in), measures),
        measures=measures,
    )


def _entry_rank(entry: tuple[int, bool], middle: Sequence[int]) -> tuple[bool, int]:
    target, above = entry
    return (not above, -middle[target] if above else middle[target])


def _columns(
    grid: Grid, many: tuple[Mapping[_Gap, int], Mapping[_Gap, int]], measures: Dimensions
) -> list[int]:
    room: dict[int, int] = defaultdict(int)
    for gap in {*many[0], *many[1]}:
        out, into = many[0].get(gap, 0), many[1].get(gap, 0)
        taken = track_offset(out, out, measures.pitch) + track_offset(into, into, measures.pitch)
        room[gap[1]] = max(room[gap[1]], BEFORE + taken + BETWEEN + BEHIND)
    edges, count = [room[0]], grid.widest()
    for place in range(1, count):
        edges.append(edges[-1] + measures.box_width + max(measures.column_gap, room[place]))
    return [*edges, edges[-1] + measures.box_width + room[count]]


def assign_tracks(spans: Mapping[int, tuple[int, int]]) -> tuple[dict[int, int], int]:
    """Return a track for each interval, and the number of tracks.

    Intervals on one track do not overlap.

    >>> assign_tracks({7: (0, 20), 8: (10, 50), 9: (30, 40)})
    ({7: 0, 8: 1, 9: 0}, 2)
    """
    tracks: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    count = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        while busy and busy[0][0] + BETWEEN < begin:
            heappush(free, heappop(busy)[1])
        if not free:
            heappush(free, count)
            count += 1
        tracks[name] = heappop(free)
        heappush(busy, (end, tracks[name]))
    return tracks, count


def extent(places: Iterable[int]) -> tuple[int, int]:
    values = list(places)
    return min(values), max(values)
