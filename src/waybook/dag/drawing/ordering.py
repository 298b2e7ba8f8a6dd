"""Who stands above whom in a column: few crossings, and siblings in the order they were declared.

Sweeps to and fro put each item where its neighbours are on average; ties go as declared. After
each sweep, boxes with the same predecessors are put back into declared order among themselves.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence

from waybook.dag.drawing.grid import Grid, Item, neighbors

MAX_ROUNDS = 4
#: A grid with more items is swept fewer times, and its crossings are not counted.
MAX_COUNTED, ROUNDS_BEYOND = 1_500, 2

Columns = list[list[Item]]
NeighborMap = Sequence[Sequence[Item]]


def order_columns(grid: Grid) -> Columns:
    """The columns of the grid, each from top to bottom."""
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
    """The columns after each round of sweeps."""
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
    """Each item's place, counted from the middle of its column."""
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
    """Sort a column by where the neighbours are; who has none stays about where it is."""
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
    """Of each layer, the boxes with the same predecessors, as declared."""
    before: list[list[int]] = [[] for _ in range(grid.boxes)]
    for source, target in grid.edges:
        before[target].append(source)
    found: list[dict[tuple[int, ...], list[Item]]] = [
        defaultdict(list) for _ in range(max(grid.layer) + 1)
    ]
    for box, sources in enumerate(before):
        found[grid.layer[box]][tuple(sorted(sources))].append(box)
    return [[family for family in layer.values() if family[1:]] for layer in found]


def count_crossings(columns: Columns, after: NeighborMap, place: dict[Item, float]) -> int:
    """How many lines between neighbouring columns cross."""
    total = 0
    for column in columns:
        seen: list[float] = []
        for item in column:
            targets = sorted(map(place.__getitem__, after[item]))
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total
