from collections import Counter
from dataclasses import replace

from hypothesis import given

from dag_builders import make_chain, make_stage, make_step, recipes
from waybook.dag.graph import Graph, StepState, Walk, graph_of, walk
from waybook.dag.model import Recipe

RUNNING = StepState(opened=True, closed=False, total=2, done=1)
DONE = replace(RUNNING, done=2)
CLOSED = replace(DONE, closed=True)


def graph(*edges: tuple[str, str], keys: str = "") -> Graph:
    names = dict.fromkeys([*keys, *(end for edge in edges for end in edge)])
    return graph_of(make_stage("s", *map(make_step, names), edges=edges).recipe)


def two(_: str) -> int:
    return 2


def none(_: str) -> int:
    return 0


def test_step_without_jobs_closes_immediately_and_opens_the_successor() -> None:
    counts = Counter({"a": 0, "b": 0, "c": 2, "d": 2})
    chain = graph(*make_chain(*"abcd"))
    assert walk(chain, {}, counts.__getitem__) == Walk(("a", "b"), ("a", "b", "c"))


def test_jobs_of_a_skipped_step_are_not_counted() -> None:
    steps = [make_step("a", skip=True), make_step("b")]
    skipping = graph_of(make_stage("s", *steps, edges=[("a", "b")]).recipe)
    assert walk(skipping, {}, {"b": 2}.__getitem__) == Walk(("a",), ("a", "b"))


def test_starting_a_stage_without_jobs_closes_every_step() -> None:
    keys = [f"s{number}" for number in range(10_000)]
    chain = graph(*make_chain(*keys))
    step_changes = walk(chain, {}, none)
    assert step_changes.closed == step_changes.opened == chain.order
    assert {*chain.order} <= {*step_changes.closed}


def test_closed_step_stays_closed_when_number_of_done_jobs_decreases() -> None:
    for done in (CLOSED, replace(CLOSED, done=0)):
        assert walk(graph(("a", "b")), {"a": done, "b": RUNNING}, two) == Walk((), ())


@given(recipes())
def test_starting_a_stage_counts_the_jobs_of_each_step_once(recipe: Recipe) -> None:
    calls: Counter[str] = Counter()

    def count_of(key: str) -> int:
        calls[key] += 1
        return 0

    recipe_graph = graph_of(recipe)
    walk(recipe_graph, {}, count_of)
    assert calls == Counter(key for key in recipe_graph.order if not recipe_graph.steps[key].skip)
