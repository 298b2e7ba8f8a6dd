"""How high each item stands: as level with its neighbours as the order in the columns allows.

What each item wishes for is the mean height of its neighbours. The heights nearest to all wishes
that keep the order and the distances are found in one pass (pool adjacent violators). No column
makes its band higher than the fullest one has to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waybook.dag.drawing.grid import Grid, Item, neighbors
from waybook.dag.drawing.measures import Dimensions

#: A passing line is bent less gladly than a box is moved.
BOX_WEIGHT, LINE_WEIGHT, IDLE_WEIGHT = 1.0, 4.0, 0.05


@dataclass(frozen=True, slots=True)
class VerticalPlacement:
    #: The middle of each item, counted from the top of its band.
    middle: Sequence[int]
    #: Of each band.
    heights: list[int]


def place_vertically(
    grid: Grid, columns: list[list[Item]], measures: Dimensions
) -> VerticalPlacement:
    """The heights of all items."""
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
                _settle(columns[place], near, middle, (stacks[place][0], slack[place]), grid.boxes)
    return VerticalPlacement([round(height) for height in middle], heights)


def _passes(grid: Grid, columns: int) -> Iterator[tuple[Sequence[Sequence[Item]], Sequence[int]]]:
    """To and fro: whom to look at, and the columns in which order."""
    before, after = neighbors(grid, list(grid.through.values()))
    both = [sources + targets for sources, targets in zip(before, after, strict=True)]
    forth, back = range(columns), range(columns - 1, -1, -1)
    return iter([(before, forth), (after, back), (both, forth), (both, back)])


def _stack(grid: Grid, column: list[Item], measures: Dimensions) -> tuple[list[int], int]:
    """The middles of a column's items when they stand as close as they may; how high that is."""
    offsets, bottom, last = list[int](), 0, None
    for item in column:
        box = grid.is_box(item)
        gap = 0 if last is None else _gap(last, box, measures)
        half = measures.box_height // 2 if box else 0
        offsets.append(bottom + gap + half)
        bottom, last = bottom + gap + (measures.box_height if box else 0), box
    return offsets, bottom


def _gap(one: bool, other: bool, measures: Dimensions) -> int:  # noqa: FBT001 - whether each is a box
    if one and other:
        return measures.row_gap
    return measures.passing_gap if one or other else measures.line_gap


def _settle(
    column: list[Item],
    near: Sequence[Sequence[Item]],
    middle: list[float],
    room: tuple[list[int], int],
    boxes: int,
) -> None:
    """Move the items of a column as near to their neighbours as they can go."""
    offsets, slack = room
    wishes, weights = [], []
    for item, offset in zip(column, offsets, strict=True):
        found = near[item]
        if found:
            wishes.append(sum([middle[other] for other in found]) / len(found) - offset)
            weights.append(BOX_WEIGHT if item < boxes else LINE_WEIGHT)
        else:
            wishes.append(middle[item] - offset)
            weights.append(IDLE_WEIGHT)
    for item, offset, moved in zip(column, offsets, monotone_fit(wishes, weights), strict=True):
        middle[item] = offset + round(min(max(moved, 0.0), slack))


def monotone_fit(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The rising numbers nearest to these, by the sum of the weighted squares.

    >>> monotone_fit([1, 4, 2, 5], [1, 1, 1, 1])
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
