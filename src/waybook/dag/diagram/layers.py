"""Assigns boxes to the columns and rows of a grid. Each box comes after its dependencies.

Many steps of one kind with the same predecessors and successors are drawn as one stack. Some edges
of a very dense diagram are left out.
"""

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from waybook.dag.diagram.model import STACK_FROM, Lane

Pairs: TypeAlias = list[tuple[int, int]]
#: The steps of each box.
Stacks: TypeAlias = tuple[tuple[int, ...], ...]
_Adjacent: TypeAlias = list[list[int]]


def stack_siblings(lane: Lane, stack_from: int) -> tuple[Stacks, Pairs]:
    """Group the steps of a stage or plan into boxes, and return the boxes and their edges."""
    place = {step.key: number for number, step in enumerate(lane.steps)}
    edges = list(dict.fromkeys((place[source], place[target]) for source, target in lane.edges))
    families: dict[object, list[int]] = defaultdict(list)
    before, after = (list(map(sorted, near)) for near in _adjacent(len(place), edges))
    for number, step in enumerate(lane.steps):
        families[tuple(before[number]), tuple(after[number]), step.kind].append(number)
    large = (family for family in families.values() if len(family) >= stack_from)
    first = {number: family[0] for family in large for number in family}
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(len(place)):
        members[first.get(number, number)].append(number)
    box = {number: place for place, numbers in enumerate(members.values()) for number in numbers}
    joined = dict.fromkeys((box[source], box[target]) for source, target in edges)
    return tuple(map(tuple, members.values())), list(joined)


def box_of(lane: Lane, key: str) -> str | None:
    """Return the key of the first step in the box that contains this step."""
    place = next((n for n, step in enumerate(lane.steps) if step.key == key), None)
    boxes = (steps for steps in stack_siblings(lane, STACK_FROM)[0] if place in steps)
    return next((lane.steps[steps[0]].key for steps in boxes), None)


def _adjacent(count: int, edges: Pairs) -> tuple[_Adjacent, _Adjacent]:
    """Return the predecessors and the successors of each box."""
    before: _Adjacent = [[] for _ in range(count)]
    after: _Adjacent = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    return before, after


def _topological(before: _Adjacent, after: _Adjacent) -> list[int]:
    waiting = [len(predecessors) for predecessors in before]
    order = [box for box, count in enumerate(waiting) if not count]
    for box in order:
        for target in after[box]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def layers_of(count: int, edges: Pairs) -> list[int]:
    """Return the column of each box, which is the length of the longest path to the box.

    Some boxes are then moved to other columns, so that their edges become shorter.
    """
    before, after = _adjacent(count, edges)
    order = _topological(before, after)
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


def _bands_of(layer: Sequence[int], edges: Pairs, columns: int) -> list[int]:
    """Return the first column of each row. Rows end where few edges lead to the next row.

    >>> _bands_of([0, 1, 2, 3, 4, 5, 6], [(n, n + 1) for n in range(6)], 5)
    [0, 4]
    """
    count = max(layer) + 1
    even = -(-count // -(-count // columns))
    change = [0] * (count + 2)
    for source, target in edges:
        change[layer[source] + 1] += 1
        change[layer[target] + 1] -= 1
    cut, starts = list(accumulate(change)), [0]
    while count - starts[-1] > columns:
        start = starts[-1]
        ends = range(start + max(1, even * 2 // 3), start + columns + 1)
        starts.append(min((cut[end], abs(end - start - even), end) for end in ends)[-1])
    return starts


MIN_LINES: Final = 1_000
LINES_PER_BOX: Final = 10
#: If a diagram has more boxes, edges that longer paths make redundant are not removed, because
#: finding them needs much memory.
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
        # Keep the first edges to each box.
        seen, ranked = Counter[int](), Pairs()
        for number, (_, target) in enumerate(remaining):
            seen[target] += 1
            ranked.append((seen[target], number))
        remaining = [remaining[n] for n in sorted(n for _, n in sorted(ranked)[:most])]
    return remaining, len(edges) - len(remaining)


def _without_implied(count: int, edges: Pairs) -> Pairs:
    before, after = _adjacent(count, edges)
    order = _topological(before, after)
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


#: Number of a box, or of a place in a column through which a line passes.
Item: TypeAlias = int


@dataclass(slots=True, kw_only=True)
class Grid:
    boxes: int
    edges: Pairs
    #: Column of each item. The numbers continue from one row to the next.
    layer: list[int]
    #: First column of each row.
    starts: list[int]
    #: Row of each column.
    bands: list[int]
    #: For each item that is not a box: the box at which its line begins.
    origins: list[int] = field(default_factory=list)
    #: For each edge that runs between the boxes of one row: the items along the edge.
    through: dict[tuple[int, int], list[Item]] = field(default_factory=dict)
    detours: Pairs = field(default_factory=list)

    def band(self, item: Item) -> int:
        return self.bands[self.layer[item]]

    def column(self, item: Item) -> int:
        layer = self.layer[item]
        return layer - self.starts[self.bands[layer]]

    def widest(self) -> int:
        ends = [*self.starts[1:], max(self.layer) + 1]
        return max(end - start for start, end in zip(self.starts, ends, strict=True))


def grid_of(layer: list[int], edges: Pairs, columns: int, longest: int) -> Grid:
    """Return the grid. Edges to another row, or over more than `longest` columns, are detours."""
    starts = _bands_of(layer, edges, columns)
    bands = [bisect_right(starts, place) - 1 for place in range(max(layer) + 1)]
    grid = Grid(boxes=len(layer), edges=edges, layer=[*layer], starts=starts, bands=bands)
    slots: dict[tuple[int, int], Item] = {}
    for source, target in edges:
        if grid.band(source) != grid.band(target) or layer[target] - layer[source] > longest:
            grid.detours.append((source, target))
            continue
        way = [source]
        for place in range(layer[source] + 1, layer[target]):
            if (source, place) not in slots:
                slots[source, place] = len(grid.layer)
                grid.layer.append(place)
                grid.origins.append(source)
            way.append(slots[source, place])
        grid.through[source, target] = [*way, target]
    return grid


def neighbors(grid: Grid, ways: Iterable[Sequence[Item]]) -> tuple[_Adjacent, _Adjacent]:
    steps = dict.fromkeys(step for way in ways for step in pairwise(way))
    return _adjacent(len(grid.layer), list(steps))


_MAX_ROUNDS = 4
MAX_COUNTED, ROUNDS_BEYOND = 1_500, 2

_Columns = list[list[Item]]


def order_columns(grid: Grid) -> _Columns:
    """Return the items of each column from top to bottom, ordered so that few lines cross."""
    if len(grid.layer) > MAX_COUNTED:
        return list(_rounds(grid, ROUNDS_BEYOND))[-1]
    _, lines = neighbors(grid, grid.through.values())
    best: tuple[int, _Columns] | None = None
    for columns in _rounds(grid, _MAX_ROUNDS):
        count = _count_crossings(columns, lines)
        if best is None or count < best[0]:
            best = count, [list(column) for column in columns]
        if not count:
            break
    return best[1] if best else []


def _rounds(grid: Grid, rounds: int) -> Iterator[_Columns]:
    before, after = neighbors(grid, [*grid.through.values(), *grid.detours])
    families = _families(grid)
    columns: _Columns = [[] for _ in families]
    first = [*range(grid.boxes), *grid.origins]
    for item in sorted(range(len(grid.layer)), key=lambda item: (first[item], item >= grid.boxes)):
        columns[grid.layer[item]].append(item)
    place: dict[Item, float] = {}
    for column in columns:
        _note(column, place)
    for number in range(rounds):
        if number:
            for layer in range(len(columns) - 2, -1, -1):
                _sort(columns[layer], after, place, families[layer])
        for layer in range(len(columns)):
            _sort(columns[layer], before, place, families[layer])
        yield columns


def _note(column: list[Item], place: dict[Item, float]) -> None:
    middle = (len(column) - 1) / 2
    place.update({item: number - middle for number, item in enumerate(column)})


def _sort(
    column: list[Item], near: _Adjacent, place: dict[Item, float], families: list[list[Item]]
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
    before, _ = _adjacent(grid.boxes, grid.edges)
    families: list[dict[tuple[int, ...], list[Item]]] = [defaultdict(list) for _ in grid.bands]
    for box, sources in enumerate(before):
        families[grid.layer[box]][tuple(sorted(sources))].append(box)
    return [[family for family in layer.values() if family[1:]] for layer in families]


def _count_crossings(columns: _Columns, after: _Adjacent) -> int:
    place = {item: number for column in columns for number, item in enumerate(column)}
    total = 0
    for column in columns:
        seen: list[int] = []
        for item in column:
            targets = sorted(map(place.__getitem__, after[item]))
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total
