"""Assigns each box to a column after its dependencies.

Many identical steps are drawn as one stack. Some edges of a very dense diagram are left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from waybook.dag.diagram.model import Lane

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
    """Return the column of each box: the length of the longest path to the box.

    Boxes then move to shorten the edges.
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
    """Return the first column of each row. A row ends where the fewest edges cross.

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
    change = [0] * (count + 2)
    for source, target in edges:
        change[layer[source] + 1] += 1
        change[layer[target] + 1] -= 1
    for place in range(1, len(change)):
        change[place] += change[place - 1]
    return change


MIN_LINES: Final = 1_000
LINES_PER_BOX: Final = 10
#: Implied dependencies are found for at most this number of boxes, to save memory.
MAX_REDUCED_BOXES: Final = 2_000


class Thinned(NamedTuple):
    edges: Pairs
    undrawn: int = 0


def thin_edges(count: int, edges: Pairs) -> Thinned:
    """Return the edges to draw. Some are left out if there are too many.

    >>> dense = [(a, b) for b in range(200) for a in range(b)]
    >>> [len(thin_edges(200, dense).edges), thin_edges(200, dense).undrawn]
    [199, 19701]
    """
    most = max(MIN_LINES, LINES_PER_BOX * count)
    if len(edges) <= most:
        return Thinned(edges)
    remaining = _without_implied(count, edges) if count <= MAX_REDUCED_BOXES else edges
    if len(remaining) > most:
        remaining = _first_of_each(remaining, most)
    return Thinned(remaining, len(edges) - len(remaining))


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
