"""The grid of a lane: which item stands in which column of which band, and which edge goes how.

An edge to the next column is a curve. A longer one within a band passes through the columns
between, where a place is kept for it; edges of one source share these places. Any other edge goes
round: it is a detour.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from waybook.dag.drawing.layers import bands_of
from waybook.dag.drawing.stacks import Pairs

#: A box by its number, or a place kept for a passing line, with a number behind all boxes.
Item: TypeAlias = int


@dataclass(slots=True, kw_only=True)
class Grid:
    boxes: int
    edges: Pairs
    #: Of each item.
    layer: list[int]
    #: Where each band begins, and the band of each layer.
    starts: list[int]
    bands: list[int]
    #: Of each place kept for a line, by its number behind the boxes: the box it comes from.
    origins: list[int] = field(default_factory=list)
    #: The edges drawn through the columns: the items they come by, both ends included.
    through: dict[tuple[int, int], list[Item]] = field(default_factory=dict)
    #: The edges that go round.
    detours: Pairs = field(default_factory=list)

    def band(self, item: Item) -> int:
        """The band an item stands in."""
        return self.bands[self.layer[item]]

    def column(self, item: Item) -> int:
        """The item's column within its band."""
        layer = self.layer[item]
        return layer - self.starts[self.bands[layer]]

    def is_box(self, item: Item) -> bool:
        return item < self.boxes

    def columns(self) -> list[list[Item]]:
        """The items of each layer: boxes as declared, with what passes beside its origin."""
        found: list[list[Item]] = [[] for _ in range(max(self.layer) + 1)]
        items = sorted(range(len(self.layer)), key=self._declared)
        for item in items:
            found[self.layer[item]].append(item)
        return found

    def _declared(self, item: Item) -> tuple[int, int]:
        return (item, 0) if self.is_box(item) else (self.origins[item - self.boxes], 1)

    def widest(self) -> int:
        """How many columns the widest band has."""
        ends = [*self.starts[1:], max(self.layer) + 1]
        return max(end - start for start, end in zip(self.starts, ends, strict=True))


def grid_of(layer: list[int], edges: Pairs, columns: int, longest: int) -> Grid:
    """Lay the boxes out in columns; `longest` is how far an edge may pass through."""
    starts = bands_of(layer, edges, columns)
    bands = [bisect_right(starts, place) - 1 for place in range(max(layer) + 1)]
    grid = Grid(boxes=len(layer), edges=edges, layer=[*layer], starts=starts, bands=bands)
    kept: dict[tuple[int, int], Item] = {}
    for source, target in edges:
        span = layer[target] - layer[source]
        if grid.band(source) != grid.band(target) or span > longest:
            grid.detours.append((source, target))
        else:
            between = range(layer[source] + 1, layer[target])
            passing = [_kept(grid, kept, source, place) for place in between]
            grid.through[source, target] = [source, *passing, target]
    return grid


def _kept(grid: Grid, kept: dict[tuple[int, int], Item], source: int, place: int) -> Item:
    if (source, place) not in kept:
        kept[source, place] = len(grid.layer)
        grid.layer.append(place)
        grid.origins.append(source)
    return kept[source, place]


def neighbors(grid: Grid, ways: Sequence[Sequence[Item]]) -> tuple[list[list[Item]], ...]:
    """The items before and after each, along these ways."""
    before: list[dict[Item, None]] = [{} for _ in grid.layer]
    after: list[dict[Item, None]] = [{} for _ in grid.layer]
    for way in ways:
        for one, other in pairwise(way):
            after[one][other] = None
            before[other][one] = None
    return [list(found) for found in before], [list(found) for found in after]
