"""Assigns boxes to the columns and rows of a grid. Each box comes after its dependencies.

Many steps of one kind with the same predecessors and successors are drawn as one stack. Some edges
of a very dense diagram are left out.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, TypeAlias

from waybook.dag.diagram.model import STACK_FROM, Lane

Pairs: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StackedLane:
    """The steps of a stage or plan, grouped into boxes."""

    boxes: tuple[tuple[int, ...], ...]
    edges: Pairs


def stack_siblings(lane: Lane, stack_from: int) -> StackedLane:
    place = {step.key: number for number, step in enumerate(lane.steps)}
    edges = list(dict.fromkeys((place[source], place[target]) for source, target in lane.edges))
    families: dict[object, list[int]] = defaultdict(list)
    for number, near in enumerate(_adjacent_positions(len(place), edges)):
        families[(near, lane.steps[number].kind)].append(number)
    large = (family for family in families.values() if len(family) >= stack_from)
    first = {number: family[0] for family in large for number in family}
    if not first:
        return StackedLane(tuple((number,) for number in range(len(place))), edges)
    return _joined(len(place), edges, first)


def box_of(lane: Lane, key: str) -> str | None:
    """Return the key of the first step in the box that contains this step."""
    place = next((n for n, step in enumerate(lane.steps) if step.key == key), None)
    boxes = (steps for steps in stack_siblings(lane, STACK_FROM).boxes if place in steps)
    return next((lane.steps[steps[0]].key for steps in boxes), None)


def _adjacent_positions(
    count: int, edges: Pairs
) -> Sequence[tuple[tuple[int, ...], tuple[int, ...]]]:
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    return [(tuple(sorted(b)), tuple(sorted(a))) for b, a in zip(before, after, strict=True)]


def _joined(count: int, edges: Pairs, first: dict[int, int]) -> StackedLane:
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(count):
        members[first.get(number, number)].append(number)
    box = {number: place for place, numbers in enumerate(members.values()) for number in numbers}
    joined = dict.fromkeys((box[source], box[target]) for source, target in edges)
    return StackedLane(tuple(map(tuple, members.values())), list(joined))


def layers_of(count: int, edges: Pairs) -> list[int]:
    """Return the column of each box, which is the length of the longest path to the box.

    Some boxes are then moved to other columns, so that their edges become shorter.
    """
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    order = _order(before, after)
    layer = [0] * count
    for box in order:
        for target in after[box]:
            layer[target] = max(layer[target], layer[box] + 1)
    for box in reversed(order):
        if after[box] and len(after[box]) >= len(before[box]):
            layer[box] = min([layer[target] for target in after[box]]) - 1
    for box in order:
        if before[box] and len(before[box]) >= len(after[box]):
            layer[box] = max([layer[source] for source in before[box]]) + 1
    return layer


def _order(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    waiting = [len(predecessors) for predecessors in before]
    order = [box for box, count in enumerate(waiting) if not count]
    for box in order:
        for target in after[box]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def _bands_of(layer: Sequence[int], edges: Pairs, columns: int) -> list[int]:
    """Return the first column of each row. Rows end where few edges lead to the next row.

    >>> _bands_of([0, 1, 2, 3, 4, 5, 6], [(n, n + 1) for n in range(6)], 5)
    [0, 4]
    """
    count = max(layer) + 1
    even = -(-count // -(-count // columns))
    cut = _edges_through(layer, edges, count)
    starts = [0]
    while count - starts[-1] > columns:
        start = starts[-1]
        ends = range(start + max(1, even * 2 // 3), start + columns + 1)
        starts.append(min((cut[end], abs(end - start - even), end) for end in ends)[-1])
    return starts


def _edges_through(layer: Sequence[int], edges: Pairs, count: int) -> list[int]:
    change = [0] * (count + 2)
    for source, target in edges:
        change[layer[source] + 1] += 1
        change[layer[target] + 1] -= 1
    for place in range(1, len(change)):
        change[place] += change[place - 1]
    return change


MIN_LINES: Final = 1_000
LINES_PER_BOX: Final = 10
#: If a diagram has more boxes, implied edges are not removed, because finding them needs much
#: memory.
_MAX_REDUCED_BOXES: Final = 2_000


def thin_edges(count: int, edges: Pairs) -> tuple[Pairs, int]:
    """Return the edges to draw, and the number of those left out because there are too many.

    >>> dense = [(a, b) for b in range(200) for a in range(b)]
    >>> drawn, undrawn = thin_edges(200, dense)
    >>> len(drawn), undrawn
    (199, 19701)
    """
    most = max(MIN_LINES, LINES_PER_BOX * count)
    if len(edges) <= most:
        return edges, 0
    remaining = _without_implied(count, edges) if count <= _MAX_REDUCED_BOXES else edges
    if len(remaining) > most:
        remaining = _first_of_each(remaining, most)
    return remaining, len(edges) - len(remaining)


def _without_implied(count: int, edges: Pairs) -> Pairs:
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
    order = _topological(count, after)
    place = {box: number for number, box in enumerate(order)}
    reached = [0] * count
    remaining = set[tuple[int, int]]()
    for box in reversed(order):
        covered = 0
        for target in sorted(after[box], key=place.__getitem__):
            if not covered >> target & 1:
                remaining.add((box, target))
                covered |= reached[target] | 1 << target
        reached[box] = covered
    return [edge for edge in edges if edge in remaining]


def _topological(count: int, after: Sequence[Sequence[int]]) -> list[int]:
    waiting = [0] * count
    for targets in after:
        for target in targets:
            waiting[target] += 1
    order = [box for box in range(count) if not waiting[box]]
    for box in order:
        for target in after[box]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def _first_of_each(edges: Pairs, most: int) -> Pairs:
    rank: dict[int, int] = {}
    ranked = list[tuple[int, int]]()
    for number, (_, target) in enumerate(edges):
        rank[target] = rank.get(target, 0) + 1
        ranked.append((rank[target], number))
    selected = sorted(number for _, number in islice(sorted(ranked), most))
    return [edges[number] for number in selected]


#: Number of a box, or of a place in a column through which a line passes.
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
    """Return the grid of boxes. Edges across more than `longest` columns go around the boxes."""
    starts = _bands_of(layer, edges, columns)
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


_MAX_ROUNDS = 4
MAX_COUNTED, ROUNDS_BEYOND = 1_500, 2

_Columns = list[list[Item]]
_NeighborMap = Sequence[Sequence[Item]]


def order_columns(grid: Grid) -> _Columns:
    if len(grid.layer) > MAX_COUNTED:
        return list(_rounds(grid, ROUNDS_BEYOND))[-1]
    _, lines = neighbors(grid, list(grid.through.values()))
    best: tuple[int, _Columns] | None = None
    for columns in _rounds(grid, _MAX_ROUNDS):
        count = _count_crossings(columns, lines, _places(columns))
        if best is None or count < best[0]:
            best = count, [list(column) for column in columns]
        if not count:
            break
    return best[1] if best else []


def _rounds(grid: Grid, rounds: int) -> Iterator[_Columns]:
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


def _places(columns: _Columns) -> dict[Item, float]:
    place: dict[Item, float] = {}
    for column in columns:
        _note(column, place)
    return place


def _note(column: list[Item], place: dict[Item, float]) -> None:
    middle = (len(column) - 1) / 2
    place.update({item: number - middle for number, item in enumerate(column)})


def _sort(
    column: list[Item], near: _NeighborMap, place: dict[Item, float], families: list[list[Item]]
) -> None:
    wish = {
        item: sum(map(place.__getitem__, near[item])) / len(near[item])
        if near[item]
        else place[item]
        for item in column
    }
    column.sort(key=wish.__getitem__)
    number = {item: place for place, item in enumerate(column)} if families else {}
    for family in families:
        slots = sorted(number[item] for item in family)
        for slot, item in zip(slots, family, strict=True):
            column[slot] = item
    _note(column, place)


def _families(grid: Grid) -> list[list[list[Item]]]:
    """Return, for each column, the groups of two or more boxes with the same predecessors."""
    before: list[list[int]] = [[] for _ in range(grid.boxes)]
    for source, target in grid.edges:
        before[target].append(source)
    families: list[dict[tuple[int, ...], list[Item]]] = [
        defaultdict(list) for _ in range(max(grid.layer) + 1)
    ]
    for box, sources in enumerate(before):
        families[grid.layer[box]][tuple(sorted(sources))].append(box)
    return [[family for family in layer.values() if family[1:]] for layer in families]


def _count_crossings(columns: _Columns, after: _NeighborMap, place: dict[Item, float]) -> int:
    total = 0
    for column in columns:
        seen: list[float] = []
        for item in column:
            targets = sorted(map(place.__getitem__, after[item]))
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total
