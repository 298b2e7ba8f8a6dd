"""Recipe (steps and edges) of a stage: order of the steps, and errors about cycles."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_chain, make_recipe, make_step, recipes
from waybook.dag.graph import MAX_CYCLE_SHOWN, find_cycle, graph_of, graph_or_errors
from waybook.dag.model import Recipe
from waybook.errors import BadRecipe


def fault_of(recipe: Recipe) -> tuple[object, object]:
    with pytest.raises(BadRecipe) as refusal:
        graph_of(recipe)
    return refusal.value.details["fault"], refusal.value.details["at"]


def test_independent_steps_are_ordered_by_step_number_then_position() -> None:
    recipe = make_recipe(
        make_step("z", number=2), make_step("y", number=1), make_step("x", number=2)
    )
    assert graph_of(recipe).order == ("y", "z", "x")


def test_cycle_error_names_only_the_steps_of_the_cycle() -> None:
    edges = [*make_chain("b", "c", "d", "b"), ("d", "a"), ("x", "b")]
    errors = graph_or_errors(make_recipe(*map(make_step, "abcdx"), edges=edges))
    assert isinstance(errors, list)
    assert errors[0].message == "the steps form a cycle: b → c → d → b"


def test_error_for_a_cycle_shortens_a_long_cycle() -> None:
    keys = [f"s{number}" for number in range(1000)]
    message = find_cycle({key: [keys[number - 1]] for number, key in enumerate(keys)}, keys)
    assert message.count("→") == MAX_CYCLE_SHOWN + 1


@given(recipe=recipes())
def test_step_order_of_any_stage_places_steps_after_dependencies(recipe: Recipe) -> None:
    graph = graph_of(recipe)
    place = {key: number for number, key in enumerate(graph.order)}
    assert sorted(place) == sorted(step.key for step in recipe.steps)
    assert all(place[source] < place[target] for source, target in recipe.edges)


@given(recipe=recipes())
def test_predecessors_and_first_and_last_steps_agree_with_the_edges(recipe: Recipe) -> None:
    graph = graph_of(recipe)
    assert {(s, key) for key, before in graph.predecessors.items() for s in before} == {
        *recipe.edges
    }
    assert {(key, t) for key, after in graph.successors.items() for t in after} == {*recipe.edges}
    keys = {step.key for step in recipe.steps}
    assert {*graph.roots} == keys - {target for _, target in recipe.edges}
    assert {*graph.leaves} == keys - {source for source, _ in recipe.edges}


@given(recipe=recipes(), data=st.data())
def test_step_order_does_not_depend_on_the_order_of_edges(
    recipe: Recipe, data: st.DataObject
) -> None:
    shuffled = replace(recipe, edges=tuple(data.draw(st.permutations(recipe.edges))))
    assert graph_of(shuffled).order == graph_of(recipe).order


@given(recipe=recipes(), data=st.data())
def test_stage_with_an_edge_to_an_earlier_step_is_refused_as_a_cycle(
    recipe: Recipe, data: st.DataObject
) -> None:
    graph = graph_of(recipe)
    start = end = data.draw(st.sampled_from(list(graph.order)))
    for _ in range(data.draw(st.integers(0, 4))):
        end = next(iter(graph.successors[end]), end)
    looped = replace(recipe, edges=(*recipe.edges, (end, start)))
    assert fault_of(looped) == ("cycle", "recipe.edges")
