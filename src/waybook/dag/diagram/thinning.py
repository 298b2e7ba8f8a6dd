"""Edge reduction for maps so dense that lines would overlap and take seconds to draw.

Dependencies implied by others are left out first; if that is not enough, each step keeps its first
ones. The number left out is stated in the drawing.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from waybook.dag.diagram.layers import Pairs

#: Lines allowed for any map, and lines allowed per box.
MIN_LINES: Final = 1_000
LINES_PER_BOX: Final = 10
#: Maximum number of boxes for which implied dependencies are computed: it takes a bit per pair.
MAX_REDUCED_BOXES: Final = 2_000


class Thinned(NamedTuple):
    """Edges to draw, and the number left out."""

    edges: Pairs
    undrawn: int = 0


def thin_edges(count: int, edges: Pairs) -> Thinned:
    """Return the edges to draw between this many boxes: all of them, unless they are too many.

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
    """Return the edges without another path from source to target."""
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
    """Return `most` edges: the first into every box, then the second into every box, and so on."""
    rank: dict[int, int] = {}
    ranked = list[tuple[int, int]]()
    for number, (_, target) in enumerate(edges):
        rank[target] = rank.get(target, 0) + 1
        ranked.append((rank[target], number))
    selected = sorted(number for _, number in islice(sorted(ranked), most))
    return [edges[number] for number in selected]
