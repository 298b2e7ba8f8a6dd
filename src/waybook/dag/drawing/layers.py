"""Layers: each box in a column behind everything it depends on; columns in bands, as on a page."""

from collections.abc import Sequence

from waybook.dag.drawing.stacks import Pairs


def layers_of(count: int, edges: Pairs) -> list[int]:
    """The layer of each box: the longest way to it, or nearer to what comes next.

    Whatever feeds at least as much as it is fed is moved on as far as it can go, then whatever is
    fed at least as much back again. So edges get shorter, and what begins late stands late.
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
    waiting = [len(found) for found in before]
    order = [box for box, count in enumerate(waiting) if not count]
    for box in order:
        for target in after[box]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


def bands_of(layer: Sequence[int], edges: Pairs, columns: int) -> list[int]:
    """Where each band begins: so many columns at most, cut where the fewest edges go through.

    Where it makes no difference all bands are of one length, but for the last.

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
    """How many edges go from before each layer to it or behind it."""
    change = [0] * (count + 2)
    for source, target in edges:
        change[layer[source] + 1] += 1
        change[layer[target] + 1] -= 1
    for place in range(1, len(change)):
        change[place] += change[place - 1]
    return change
