"""Places the boxes and edges of one stage or plan in a diagram.

A diagram that is too wide for the page is split into rows. Edges run between the boxes, so that no
line crosses a box.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from waybook.dag.diagram.layers import Grid, Item, neighbors, order_columns
from waybook.dag.diagram.model import Dimensions

Point: TypeAlias = tuple[int, int]
#: Points of a route. A straight line joins two successive points with the same x or y; a curve
#: joins any others.
Route: TypeAlias = tuple[Point, ...]

#: Weights when vertical positions are chosen: of a box, of a line, and of a box or line without
#: neighbors. A line weighs more than a box, because a bend in a line looks worse than a moved box.
BOX_WEIGHT, LINE_WEIGHT, IDLE_WEIGHT = 1.0, 4.0, 0.05


def _place_vertically(grid: Grid, measures: Dimensions) -> tuple[list[int], list[int]]:
    """Return the y of the middle of each box or line within its row, and the rows' heights."""
    columns = order_columns(grid)
    stacks = [_stack(grid, column, measures) for column in columns]
    heights = [0] * len(grid.starts)
    for band, (_, high) in zip(grid.bands, stacks, strict=True):
        heights[band] = max(heights[band], high)
    slack = [heights[band] - high for band, (_, high) in zip(grid.bands, stacks, strict=True)]
    middle = [0.0] * len(grid.layer)
    for column, (offsets, _), free in zip(columns, stacks, slack, strict=True):
        for item, offset in zip(column, offsets, strict=True):
            middle[item] = offset + free / 2
    before, after = neighbors(grid, grid.through.values())
    both = [sources + targets for sources, targets in zip(before, after, strict=True)]
    forth, back = range(len(columns)), range(len(columns) - 1, -1, -1)
    for near, way in ((before, forth), (after, back), (both, forth), (both, back)):
        for place in way:
            if slack[place]:
                offset_of = dict(zip(columns[place], stacks[place][0], strict=True))
                _align_column(grid, offset_of, near, middle, slack[place])
    return [round(height) for height in middle], heights


def _stack(grid: Grid, column: list[Item], measures: Dimensions) -> tuple[list[int], int]:
    """Stack a column's items closely. Return the y of their middles, and the column's height."""
    gaps = (measures.line_gap, measures.passing_gap, measures.row_gap)
    offsets, bottom, last = list[int](), 0, None
    for item in column:
        is_box = item < grid.boxes
        top = bottom if last is None else bottom + gaps[last + is_box]
        bottom, last = top + measures.box_height * is_box, is_box
        offsets.append((top + bottom) // 2)
    return offsets, bottom


def _align_column(
    grid: Grid,
    offsets: Mapping[Item, int],
    near: Sequence[Sequence[Item]],
    middle: list[float],
    slack: int,
) -> None:
    """Move the items of a column toward the mean y of their neighbors, without overlap."""
    wishes, weights = [], []
    for item, offset in offsets.items():
        adjacent = near[item]
        if adjacent:
            wishes.append(sum([middle[other] for other in adjacent]) / len(adjacent) - offset)
            weights.append(BOX_WEIGHT if item < grid.boxes else LINE_WEIGHT)
        else:
            wishes.append(middle[item] - offset)
            weights.append(IDLE_WEIGHT)
    fitted = _monotone_fit(wishes, weights)
    for (item, offset), moved in zip(offsets.items(), fitted, strict=True):
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


#: Free pixels between two columns: to the left of the vertical lines, to the right of these lines,
#: and between two lines.
BEFORE, BEHIND, BETWEEN = 10, 15, 8
_CORRIDOR_MARGIN = 12
_COMPACT_TRACK_COUNT = 16


class Routes:
    """Positions of the boxes of one stage or plan, and routes of its edges.

    An edge that cannot run between the boxes is a detour: a line to the right of its first box, in
    the corridor below a row, and to the left of its last box. A detour to a row further below also
    runs along the left edge of the diagram, in the gutter.
    """

    def __init__(self, grid: Grid, measures: Dimensions) -> None:
        self._grid, self._measures = grid, measures
        self._middles, heights = _place_vertically(grid, measures)
        far = defaultdict[int, list[int]](list)
        for source, target in grid.detours:
            above, below = grid.band(source), grid.band(target)
            if below > above + 1:
                far[source] += [above, below - 1]
        tracks, count = assign_tracks({box: (min(rows), max(rows)) for box, rows in far.items()})
        #: For each box with a line in the gutter, the x of this line.
        self._gutter = {box: self._offset(track, count) for box, track in tracks.items()}
        self._left_edge = _CORRIDOR_MARGIN + self._offset(count, count) if count else 0
        #: For each box, the x of the lines that leave it to its right.
        self._exits: dict[int, int] = {}
        #: For each box, the x of the lines that enter it from above (True) or from below (False).
        self._entries: dict[tuple[int, bool], int] = {}
        #: Left edge of each column, and the right edge of the last one.
        self._columns = self._place_columns()
        #: Top of each row. `_corridors` has the y of each line in the corridor below a row, by the
        #: line's first box and the row.
        self._tops: list[int] = []
        self._corridors: dict[tuple[int, int], int] = {}
        self.width, self.height = self._columns[-1], self._place_rows(heights)

    def left(self, item: Item) -> int:
        return self._columns[self._grid.column(item)]

    def middle(self, item: Item) -> int:
        return self._tops[self._grid.band(item)] + self._middles[item]

    def route(self, source: int, target: int) -> Route:
        start = self.left(source) + self._measures.box_width, self.middle(source)
        end = self.left(target), self.middle(target)
        if (source, target) not in self._grid.through:
            return (start, *self._around(source, target), end)
        way = [start]
        for item in self._grid.through[source, target][1:-1]:
            left, height = self.left(item), self.middle(item)
            way += [(left, height), (left + self._measures.box_width, height)]
        return (*way, end)

    def _around(self, source: int, target: int) -> list[Point]:
        above, below = self._grid.band(source), self._grid.band(target)
        out, into = self._exits[source], self._entries[target, below > above]
        along = self._corridors[source, above]
        way = [(out, self.middle(source)), (out, along)]
        if below > above + 1:
            gutter = self._gutter[source]
            way += [(gutter, along), (gutter, self._corridors[source, below - 1])]
        return [*way, (into, way[-1][1]), (into, self.middle(target))]

    def _offset(self, track: int, count: int) -> int:
        """Return the distance of a track from the first of `count` parallel tracks for lines.

        If there are many tracks, they are closer together.
        """
        if count <= _COMPACT_TRACK_COUNT:
            return track * self._measures.pitch
        return track * max(2 * count, self._measures.pitch * _COMPACT_TRACK_COUNT) // count

    def _place_columns(self) -> list[int]:
        """Place the columns and, between them, the vertical lines of detours."""
        grid, measures, middles = self._grid, self._measures, self._middles
        #: The boxes with a line in each gap. A gap is named by its row and the column to its right.
        leaving = defaultdict[tuple[int, int], dict[int, None]](dict)
        entering = defaultdict[tuple[int, int], dict[tuple[int, bool], None]](dict)
        for source, target in grid.detours:
            above, below = grid.band(source), grid.band(target)
            leaving[above, grid.column(source) + 1][source] = None
            entering[below, grid.column(target)][target, below > above] = None
        room = defaultdict[int, int](int)
        for gap in {*leaving, *entering}:
            counts = len(leaving.get(gap, ())), len(entering.get(gap, ()))
            taken = sum(self._offset(count, count) for count in counts)
            room[gap[1]] = max(room[gap[1]], BEFORE + taken + BETWEEN + BEHIND)
        lefts = [self._left_edge + room[0]]
        for column in range(1, grid.widest()):
            gap_width = max(measures.column_gap, room[column])
            lefts.append(lefts[-1] + measures.box_width + gap_width)
        lefts.append(lefts[-1] + measures.box_width + room[len(lefts)])
        for (_, column), boxes in leaving.items():
            first, many = lefts[column - 1] + measures.box_width + BEFORE, len(boxes)
            for track, box in enumerate(sorted(boxes, key=lambda box: -middles[box])):
                self._exits[box] = first + self._offset(track, many)
        for (_, column), entries in entering.items():
            many = len(entries)
            first = lefts[column] - BEHIND - self._offset(many, many)
            down = sorted([e for e in entries if e[1]], key=lambda entry: -middles[entry[0]])
            up = sorted([e for e in entries if not e[1]], key=lambda entry: middles[entry[0]])
            for track, entry in enumerate([*down, *up], 1):
                self._entries[entry] = first + self._offset(track, many)
        return lefts

    def _place_rows(self, heights: list[int]) -> int:
        """Place the rows and the lines of detours in the corridors. Return the diagram's height."""
        met = defaultdict[int, dict[int, list[int]]](lambda: defaultdict(list))
        for source, target in self._grid.detours:
            above, below = self._grid.band(source), self._grid.band(target)
            met[above][source].append(self._exits[source])
            met[max(above, below - 1)][source].append(self._entries[target, below > above])
            if below > above + 1:
                met[above][source].append(self._left_edge)
                met[below - 1][source].append(self._left_edge)
        top, last = 0, len(heights) - 1
        for band, height in enumerate(heights):
            self._tops.append(top)
            top += height
            spans = {source: (min(places), max(places)) for source, places in met[band].items()}
            tracks, count = assign_tracks(spans)
            for source, track in tracks.items():
                self._corridors[source, band] = top + _CORRIDOR_MARGIN + self._offset(track, count)
            margins = _CORRIDOR_MARGIN if band == last else 2 * _CORRIDOR_MARGIN
            taken = self._offset(count, count) + margins if count else 0
            top += max(taken, 0 if band == last else self._measures.band_gap)
        return top


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
