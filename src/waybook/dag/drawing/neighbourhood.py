"""A part of a map that is too large to be drawn whole: what is nearest to one of its steps."""

from collections import Counter, defaultdict, deque
from dataclasses import replace

from waybook.dag.drawing.measures import STACK_FROM
from waybook.dag.drawing.sketch import Lane


def exceeds(lane: Lane, boxes: int) -> bool:
    """Whether a lane has more boxes than this, its stacks counted as one.

    Neighbours are told apart by the sums of their hashes, which takes far less than to stack them.
    """
    if len(lane.steps) <= boxes:
        return False
    before, after = (dict.fromkeys((step.key for step in lane.steps), 0) for _ in range(2))
    for source, target in dict.fromkeys(lane.edges):
        after[source] += hash(target)
        before[target] += hash(source)
    families = Counter((before[step.key], after[step.key], step.kind) for step in lane.steps)
    return sum(1 if size >= STACK_FROM else size for size in families.values()) > boxes


def steps_around(lane: Lane, key: str, most: int) -> Lane:
    """The lane with only the steps nearest to this one, at most so many, and the edges between.

    Steps that no edge leads to are not near, however few there are.
    """
    beside: dict[str, list[str]] = defaultdict(list)
    for source, target in lane.edges:
        beside[source].append(target)
        beside[target].append(source)
    near, waiting = {key}, deque([key])
    while waiting and len(near) < most:
        for other in beside[waiting.popleft()]:
            if other not in near and len(near) < most:
                near.add(other)
                waiting.append(other)
    return replace(
        lane,
        steps=tuple(step for step in lane.steps if step.key in near),
        edges=tuple((s, t) for s, t in lane.edges if s in near and t in near),
    )
