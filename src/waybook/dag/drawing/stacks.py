"""Identical siblings as one stack: many steps of a kind with the same neighbours on both sides."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from waybook.dag.drawing.sketch import Lane

#: Edges by places.
Pairs: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StackedLane:
    """A lane as boxes: each has the places of its steps, in declared order."""

    boxes: tuple[tuple[int, ...], ...]
    edges: Pairs


def stack_siblings(lane: Lane, stack_from: int) -> StackedLane:
    """The lane with every family of at least so many identical siblings as one box."""
    place = {step.key: number for number, step in enumerate(lane.steps)}
    edges = list(dict.fromkeys((place[source], place[target]) for source, target in lane.edges))
    families: dict[object, list[int]] = defaultdict(list)
    for number, near in enumerate(_neighbours(len(place), edges)):
        families[(near, lane.steps[number].kind)].append(number)
    large = (family for family in families.values() if len(family) >= stack_from)
    first = {number: family[0] for family in large for number in family}
    if not first:
        return StackedLane(tuple((number,) for number in range(len(place))), edges)
    return _joined(len(place), edges, first)


def _neighbours(count: int, edges: Pairs) -> Sequence[tuple[tuple[int, ...], tuple[int, ...]]]:
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    return [(tuple(sorted(b)), tuple(sorted(a))) for b, a in zip(before, after, strict=True)]


def _joined(count: int, edges: Pairs, first: dict[int, int]) -> StackedLane:
    """The boxes where each member of a family is in the box of its first."""
    members: dict[int, list[int]] = defaultdict(list)
    for number in range(count):
        members[first.get(number, number)].append(number)
    box = {number: place for place, found in enumerate(members.values()) for number in found}
    joined = dict.fromkeys((box[source], box[target]) for source, target in edges)
    return StackedLane(tuple(map(tuple, members.values())), list(joined))
