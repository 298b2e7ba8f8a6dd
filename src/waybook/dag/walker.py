"""The walker: which steps of a stage close and which open, now that work has ended.

There is no barrier. A step opens when the steps before it are closed, whatever goes on elsewhere;
it opens once, with all its units, and closing is final.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from waybook.dag.recipe import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """Where a step stands; one that has no state has not been opened."""

    opened: bool
    closed: bool
    #: Its units, and those whose work has ended well.
    total: int
    done: int


UNOPENED = StepState(opened=False, closed=False, total=0, done=0)


@dataclass(frozen=True, slots=True)
class Walk:
    """What is to be written, in the graph's order. A step without units is in both."""

    closed: tuple[str, ...]
    opened: tuple[str, ...]


def walk(graph: Graph, states: Mapping[str, StepState], count_of: Callable[[str], int]) -> Walk:
    """Close what is done, open what is free, and go on over steps without units.

    `count_of` is asked for the units of each step that opens. One pass in the graph's order is
    enough: when a step's turn comes, everything before it has been decided.
    """
    over: set[str] = set()
    closed: list[str] = []
    opened: list[str] = []
    for key in graph.order:
        state = states.get(key, UNOPENED)
        if not (state.opened or state.closed):
            if not over.issuperset(graph.predecessors[key]):
                continue
            opened.append(key)
            state = _opened(0 if graph.steps[key].skip else count_of(key))
        if not state.closed and state.done >= state.total:
            closed.append(key)
            over.add(key)
        elif state.closed:
            over.add(key)
    return Walk(tuple(closed), tuple(opened))


def _opened(total: int) -> StepState:
    return StepState(opened=True, closed=False, total=total, done=0)


def start(graph: Graph, count_of: Callable[[str], int]) -> Walk:
    """The walk from nothing: the roots open."""
    return walk(graph, {}, count_of)


def stage_complete(graph: Graph, closed: Collection[str]) -> bool:
    """Whether every step is closed."""
    return all(key in closed for key in graph.order)
