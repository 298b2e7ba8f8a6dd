"""A recipe as a graph: its order, its roots and leaves, who comes before and after whom.

Everything here is one pass over steps and edges.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from waybook.dag.faults import Diagnostic, bad_recipe_error
from waybook.dag.model import Recipe, RecipeStep

#: A cycle longer than this is told in part.
MAX_CYCLE_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    steps: Mapping[str, RecipeStep]
    #: All keys, each behind everything it depends on; ties by step number, then as declared.
    order: tuple[str, ...]
    predecessors: Mapping[str, tuple[str, ...]]
    successors: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...]
    leaves: tuple[str, ...]


def graph_of(recipe: Recipe, at: str = "recipe") -> Graph:
    """The recipe's graph.

    Raises:
        BadRecipe: it has no steps, duplicate keys, dangling or duplicate edges, or a cycle.
    """
    found = graph_or_errors(recipe, at)
    if isinstance(found, Graph):
        return found
    raise bad_recipe_error(found)


def graph_or_errors(recipe: Recipe, at: str = "recipe") -> Graph | list[Diagnostic]:
    """The recipe's graph, or everything that keeps it from being one."""
    faults = [*_step_faults(recipe, at), *_edge_faults(recipe, at)]
    if faults:
        return faults
    keys = [step.key for step in recipe.steps]
    before, after = _neighbours(keys, recipe.edges)
    rank = {step.key: (step.number, place) for place, step in enumerate(recipe.steps)}
    order = _order(keys, before, after, rank)
    if len(order) < len(keys):
        around = find_cycle(before, set(keys) - set(order))
        return [Diagnostic("cycle", f"{at}.edges", f"the steps wait for each other: {around}")]
    return Graph(
        steps={step.key: step for step in recipe.steps},
        order=tuple(order),
        predecessors=before,
        successors=after,
        roots=tuple(key for key in order if not before[key]),
        leaves=tuple(key for key in order if not after[key]),
    )


def _step_faults(recipe: Recipe, at: str) -> Iterable[Diagnostic]:
    if not recipe.steps:
        yield Diagnostic("no_steps", f"{at}.steps", "a recipe needs at least one step")
    seen: set[str] = set()
    for number, step in enumerate(recipe.steps):
        if step.key in seen:
            where = f"{at}.steps[{number}].stepKey"
            yield Diagnostic("duplicate_key", where, f"the step key {step.key!r} is used twice")
        seen.add(step.key)


def _edge_faults(recipe: Recipe, at: str) -> Iterable[Diagnostic]:
    keys = {step.key for step in recipe.steps}
    seen: set[tuple[str, str]] = set()
    for number, edge in enumerate(recipe.edges):
        where = f"{at}.edges[{number}]"
        for end in edge:
            if end not in keys:
                yield Diagnostic(
                    "dangling_edge", where, f"the edge names {end!r}, which is no step"
                )
        if edge in seen:
            told = f"the edge from {edge[0]!r} to {edge[1]!r} is there twice"
            yield Diagnostic("duplicate_edge", where, told)
        seen.add(edge)


Neighbours = Mapping[str, tuple[str, ...]]


def _neighbours(
    keys: Sequence[str], edges: Iterable[tuple[str, str]]
) -> tuple[Neighbours, Neighbours]:
    before: dict[str, list[str]] = {key: [] for key in keys}
    after: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    return (
        {key: tuple(found) for key, found in before.items()},
        {key: tuple(found) for key, found in after.items()},
    )


def _order(
    keys: Sequence[str],
    before: Neighbours,
    after: Neighbours,
    rank: Mapping[str, tuple[int, int]],
) -> list[str]:
    waiting = {key: len(before[key]) for key in keys}
    ready = [(rank[key], key) for key in keys if not waiting[key]]
    heapify(ready)
    order: list[str] = []
    while ready:
        _, key = heappop(ready)
        order.append(key)
        for target in after[key]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, (rank[target], target))
    return order


def find_cycle(before: Mapping[str, Collection[str]], stuck: Collection[str]) -> str:
    """One cycle among those that can never come: walk back until one is met again.

    >>> find_cycle({"a": ["b"], "b": ["a"], "c": ["b"]}, {"a", "b", "c"})
    'b → a → b'
    """
    key, seen = min(stuck), dict[str, int]()
    path: list[str] = []
    while key not in seen:
        seen[key] = len(path)
        path.append(key)
        key = next(source for source in before[key] if source in stuck)
    around = [*reversed(path[seen[key] :])]
    if len(around) > MAX_CYCLE_SHOWN:
        around = [*around[:MAX_CYCLE_SHOWN], "…"]
    return " → ".join([*around, around[0]])
