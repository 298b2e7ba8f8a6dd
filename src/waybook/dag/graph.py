"""The graph of a stage's steps.

A step opens when its predecessors are closed. It opens only once, with all its jobs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter

from waybook.dag.diagnostics import Diagnostic, bad_recipe_error
from waybook.dag.model import Recipe, RecipeStep, Stage, Strategy

MAX_CYCLE_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    steps: Mapping[str, RecipeStep]
    #: All steps in topological order. Independent steps keep the order of their numbers.
    order: tuple[str, ...]
    predecessors: Mapping[str, tuple[str, ...]]
    successors: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...]
    leaves: tuple[str, ...]
    #: Cache: for each step, all steps before it. Filled when the inputs of the step are resolved.
    ancestors: dict[str, set[str]] = field(default_factory=dict, compare=False, repr=False)


def graph_of(recipe: Recipe, at: str = "recipe") -> Graph:
    """Return the graph of a recipe.

    Raises:
        BadRecipe: the recipe has no steps, duplicate keys, a cycle, or dangling or duplicate edges.
    """
    result = graph_or_errors(recipe, at)
    if isinstance(result, Graph):
        return result
    raise bad_recipe_error(result)


def graph_or_errors(recipe: Recipe, at: str = "recipe") -> Graph | list[Diagnostic]:
    faults = [*_faults(recipe, at)]
    ranked = dict.fromkeys(step.key for step in sorted(recipe.steps, key=attrgetter("number")))
    # Ignore edges to unknown steps here, so that a cycle is reported too.
    edges = [edge for edge in recipe.edges if ranked.keys() >= {*edge}] if faults else recipe.edges
    before, after = _adjacent_steps(ranked, edges)
    order = _order([*ranked], before, after)
    if len(order) < len(ranked):
        around = find_cycle(before, ranked.keys() - {*order})
        faults.append(Diagnostic("cycle", f"{at}.edges", f"the steps form a cycle: {around}"))
    if faults:
        return faults
    return Graph(
        steps={step.key: step for step in recipe.steps},
        order=tuple(order),
        predecessors=before,
        successors=after,
        roots=tuple(key for key in order if not before[key]),
        leaves=tuple(key for key in order if not after[key]),
    )


def _faults(recipe: Recipe, at: str) -> Iterator[Diagnostic]:
    if not recipe.steps:
        yield Diagnostic("no_steps", f"{at}.steps", "a stage needs at least one step")
    keys: set[str] = set()
    for number, step in enumerate(recipe.steps):
        if step.key in keys:
            where = f"{at}.steps[{number}].stepKey"
            yield Diagnostic("duplicate_key", where, f"the step key {step.key!r} is used twice")
        keys.add(step.key)
    are_distinct = len(set(recipe.edges)) == len(recipe.edges)
    if are_distinct and keys.issuperset(chain.from_iterable(recipe.edges)):
        return
    seen: set[tuple[str, str]] = set()
    for number, edge in enumerate(recipe.edges):
        where = f"{at}.edges[{number}]"
        for end in edge:
            if end not in keys:
                message = f"the edge names {end!r}, which is not a step"
                yield Diagnostic("dangling_edge", where, message)
        if edge in seen:
            message = f"the edge from {edge[0]!r} to {edge[1]!r} occurs twice"
            yield Diagnostic("duplicate_edge", where, message)
        seen.add(edge)


_AdjacentSteps = Mapping[str, tuple[str, ...]]


def _adjacent_steps(
    keys: Collection[str], edges: Iterable[tuple[str, str]]
) -> tuple[_AdjacentSteps, _AdjacentSteps]:
    before: dict[str, list[str]] = {key: [] for key in keys}
    after: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    frozen = [{key: tuple(steps) for key, steps in side.items()} for side in (before, after)]
    return frozen[0], frozen[1]


def _order(ranked: Sequence[str], before: _AdjacentSteps, after: _AdjacentSteps) -> list[str]:
    """Return the steps in topological order. Independent steps are ordered as in `ranked`."""
    waiting = {key: len(sources) for key, sources in before.items()}
    rank = {key: place for place, key in enumerate(ranked)}
    ready = [place for place, key in enumerate(ranked) if not waiting[key]]
    order: list[str] = []
    while ready:
        key = ranked[heappop(ready)]
        order.append(key)
        for target in after[key]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, rank[target])
    return order


def find_cycle(before: Mapping[str, Collection[str]], stuck: Collection[str]) -> str:
    """Return a cycle among steps that can never start.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    opened: bool
    closed: bool
    total: int
    done: int


_UNOPENED = StepState(opened=False, closed=False, total=0, done=0)


@dataclass(frozen=True, slots=True)
class Walk:
    """The steps to close and the steps to open. A ready step without jobs is in both."""

    closed: tuple[str, ...]
    opened: tuple[str, ...]


def walk(graph: Graph, states: Mapping[str, StepState], count_of: Callable[[str], int]) -> Walk:
    """Return the finished steps to close and the ready steps to open.

    `count_of` returns the number of jobs of a step.
    """
    over: set[str] = set()
    closed: list[str] = []
    opened: list[str] = []
    for key in graph.order:
        state = states.get(key, _UNOPENED)
        if not (state.opened or state.closed):
            if not over.issuperset(graph.predecessors[key]):
                continue
            opened.append(key)
            total = 0 if graph.steps[key].skip else count_of(key)
            state = StepState(opened=True, closed=False, total=total, done=0)
        if state.closed or state.done >= state.total:
            over.add(key)
            closed += [] if state.closed else [key]
    return Walk(tuple(closed), tuple(opened))


def output_keys(step: RecipeStep) -> tuple[str, ...]:
    if not step.outputs:
        return (step.output_type,)
    return tuple(dict.fromkeys(output.document_key for output in step.outputs))


def producers(stage: Stage) -> Mapping[str, tuple[str, ...]]:
    producers_by_key: dict[str, list[str]] = {}
    for step in stage.recipe.steps:
        for key in output_keys(step):
            producers_by_key.setdefault(key, []).append(step.key)
    return {key: tuple(steps) for key, steps in producers_by_key.items()}


def primary_source_candidates(step: RecipeStep, stage_slug: str, graph: Graph) -> tuple[str, ...]:
    before = graph.predecessors[step.key]
    if step.inputs is None:
        return before
    primary = next(iter(step.inputs), None)
    if primary is None or primary.stage not in {None, stage_slug}:
        return ()
    return tuple(key for key in before if primary.document_key in output_keys(graph.steps[key]))


def primary_source(step: RecipeStep, stage_slug: str, graph: Graph) -> str | None:
    """Return the predecessor whose outputs determine this step's jobs."""
    if step.strategy is not Strategy.PER_SOURCE_DOCUMENT or not graph.predecessors[step.key]:
        return None
    candidates = primary_source_candidates(step, stage_slug, graph)
    return candidates[0] if len(candidates) == 1 else None
