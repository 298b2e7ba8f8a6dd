"""Layers of a lane: each box in a column after its dependencies, columns wrapped in bands.

Identical siblings, many steps of one kind with the same neighbors on both sides, are stacked.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from waybook.dag.diagram.model import Lane

#: Edges by index.
Pairs: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StackedLane:
    """Lane as boxes: each holds the indexes of its steps, in declared order."""

    boxes: tuple[tuple[int, ...], ...]
    edges: Pairs


def stack_siblings(lane: Lane, stack_from: int) -> StackedLane:
    """Return the lane with each family of at least `stack_from` identical siblings as one box."""
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
    """Return the boxes with each member of a family in the box of its first member."""
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(count):
        members[first.get(number, number)].append(number)
    box = {number: place for place, numbers in enumerate(members.values()) for number in numbers}
    joined = dict.fromkeys((box[source], box[target]) for source, target in edges)
    return StackedLane(tuple(map(tuple, members.values())), list(joined))


def layers_of(count: int, edges: Pairs) -> list[int]:
    """Return the layer of each box: its longest path, moved toward its successors.

    A box with at least as many successors as predecessors is moved as late as possible, then one
    with at least as many predecessors is moved back as early as possible. This shortens edges, and
    late roots appear late.
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


def bands_of(layer: Sequence[int], edges: Pairs, columns: int) -> list[int]:
    """Return the first layer of each band, cut where the fewest edges cross.

    A band has at most `columns` layers. If all cuts are equal, all bands but the last have one
    length.

    >>> bands_of([0, 1, 2, 3, 4, 5, 6], [(n, n + 1) for n in range(6)], 5)
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
    """Return the number of edges from before each layer to it or beyond it."""
    change = [0] * (count + 2)
    for source, target in edges:
        change[layer[source] + 1] += 1
        change[layer[target] + 1] -= 1
    for place in range(1, len(change)):
        change[place] += change[place - 1]
    return change
