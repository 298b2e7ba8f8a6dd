"""Assigns the boxes of a diagram to columns, and orders them to reduce crossings of edges."""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from waybook.dag.diagram.layers import Pairs, bands_of

#: A box, or a place in a column through which a line passes.
Item: TypeAlias = int


@dataclass(slots=True, kw_only=True)
class Grid:
    boxes: int
    edges: Pairs
    layer: list[int]
    starts: list[int]
    bands: list[int]
    origins: list[int] = field(default_factory=list)
    through: dict[tuple[int, int], list[Item]] = field(default_factory=dict)
    detours: Pairs = field(default_factory=list)

    def band(self, item: Item) -> int:
        return self.bands[self.layer[item]]

    def column(self, item: Item) -> int:
        layer = self.layer[item]
        return layer - self.starts[self.bands[layer]]

    def is_box(self, item: Item) -> bool:
        return item < self.boxes

    def columns(self) -> list[list[Item]]:
        items_by_layer: list[list[Item]] = [[] for _ in range(max(self.layer) + 1)]
        items = sorted(range(len(self.layer)), key=self._declared)
        for item in items:
            items_by_layer[self.layer[item]].append(item)
        return items_by_layer

    def _declared(self, item: Item) -> tuple[int, int]:
        return (item, 0) if self.is_box(item) else (self.origins[item - self.boxes], 1)

    def widest(self) -> int:
        ends = [*self.starts[1:], max(self.layer) + 1]
        return max(end - start for start, end in zip(self.starts, ends, strict=True))


def grid_of(layer: list[int], edges: Pairs, columns: int, longest: int) -> Grid:
    """Assign boxes to columns. An edge across more than `longest` columns goes around the boxes."""
    starts = bands_of(layer, edges, columns)
    bands = [bisect_right(starts, place) - 1 for place in range(max(layer) + 1)]
    grid = Grid(boxes=len(layer), edges=edges, layer=[*layer], starts=starts, bands=bands)
    slots: dict[tuple[int, int], Item] = {}
    for source, target in edges:
        span = layer[target] - layer[source]
        if grid.band(source) != grid.band(target) or span > longest:
            grid.detours.append((source, target))
        else:
            between = range(layer[source] + 1, layer[target])
            passing = [_get_or_add_slot(grid, slots, source, place) for place in between]
            grid.through[source, target] = [source, *passing, target]
    return grid


def _get_or_add_slot(
    grid: Grid, slots: dict[tuple[int, int], Item], source: int, place: int
) -> Item:
    if (source, place) not in slots:
        slots[source, place] = len(grid.layer)
        grid.layer.append(place)
        grid.origins.append(source)
    return slots[source, place]


def neighbors(grid: Grid, ways: Sequence[Sequence[Item]]) -> tuple[list[list[Item]], ...]:
    before: list[dict[Item, None]] = [{} for _ in grid.layer]
    after: list[dict[Item, None]] = [{} for _ in grid.layer]
    for way in ways:
        for previous, other in pairwise(way):
            after[previous][other] = None
            before[other][previous] = None
    return [list(items) for items in before], [list(items) for items in after]


MAX_ROUNDS = 4
MAX_COUNTED, ROUNDS_BEYOND = 1_500, 2

Columns = list[list[Item]]
NeighborMap = Sequence[Sequence[Item]]


def order_columns(grid: Grid) -> Columns:
    if len(grid.layer) > MAX_COUNTED:
        return list(_rounds(grid, ROUNDS_BEYOND))[-1]
    _, lines = neighbors(grid, list(grid.through.values()))
    best: tuple[int, Columns] | None = None
    for columns in _rounds(grid, MAX_ROUNDS):
        count = count_crossings(columns, lines, _places(columns))
        if best is None or count < best[0]:
            best = count, [list(column) for column in columns]
        if not count:
            break
    return best[1] if best else []


def _rounds(grid: Grid, rounds: int) -> Iterator[Columns]:
    round_about = [[source, target] for source, target in grid.detours]
    before, after = neighbors(grid, [*grid.through.values(), *round_about])
    columns, families = grid.columns(), _families(grid)
    place = _places(columns)
    for number in range(rounds):
        if number:
            for layer in range(len(columns) - 2, -1, -1):
                _sort(columns[layer], after, place, families[layer])
        for layer in range(len(columns)):
            _sort(columns[layer], before, place, families[layer])
        yield columns


def _places(columns: Columns) -> dict[Item, float]:
    place: dict[Item, float] = {}
    for column in columns:
        _note(column, place)
    return place


def _note(column: list[Item], place: dict[Item, float]) -> None:
    middle = (len(column) - 1) / 2
    place.update({item: number - middle for number, item in enumerate(column)})


def _sort(
    column: list[Item], near: NeighborMap, place: dict[Item, float], families: list[list[Item]]
) -> None:
    wish = {item: _mean(near[item], place, place[item]) for item in column}
    column.sort(key=wish.__getitem__)
    number = {item: place for place, item in enumerate(column)} if families else {}
    for family in families:
        slots = sorted(number[item] for item in family)
        for slot, item in zip(slots, family, strict=True):
            column[slot] = item
    _note(column, place)


def _mean(near: Sequence[Item], place: dict[Item, float], otherwise: float) -> float:
    return sum(map(place.__getitem__, near)) / len(near) if near else otherwise


def _families(grid: Grid) -> list[list[list[Item]]]:
    """Return the groups of boxes with the same predecessors, by column."""
    before: list[list[int]] = [[] for _ in range(grid.boxes)]
    for source, target in grid.edges:
        before[target].append(source)
    families: list[dict[tuple[int, ...], list[Item]]] = [
        defaultdict(list) for _ in range(max(grid.layer) + 1)
    ]
    for box, sources in enumerate(before):
        families[grid.layer[box]][tuple(sorted(sources))].append(box)
    return [[family for family in layer.values() if family[1:]] for layer in families]


def count_crossings(columns: Columns, after: NeighborMap, place: dict[Item, float]) -> int:
    total = 0
    for column in columns:
        seen: list[float] = []
        for item in column:
            targets = sorted(map(place.__getitem__, after[item]))
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total
