"""Output keys, producers of documents, and the step whose documents a per-document step uses."""

from hypothesis import given

from dag_builders import make_input, make_recipe, make_stage, make_step, recipes
from waybook.dag.graph import (
    graph_of,
    output_keys,
    primary_source,
    primary_source_candidates,
    producers,
)
from waybook.dag.model import Input, Recipe, RecipeStep, Stage, Strategy

PER_DOCUMENT = Strategy.PER_SOURCE_DOCUMENT


def source_of(step: RecipeStep, *before: RecipeStep) -> str | None:
    edges = [(other.key, step.key) for other in before]
    return primary_source(step, "here", graph_of(make_recipe(*before, step, edges=edges)))


def per_document(*inputs: str | Input) -> RecipeStep:
    return make_step("z", PER_DOCUMENT, inputs=inputs)


def test_output_keys_of_a_step_are_unique() -> None:
    assert output_keys(make_step("a", outputs=["one", "two", "one"])) == ("one", "two")


def test_step_without_outputs_uses_the_output_type_as_key() -> None:
    assert output_keys(make_step("a", output_type="essay")) == ("essay",)


def test_all_steps_that_output_a_document_are_producers() -> None:
    stage = make_stage("here", make_step("a", outputs=["x", "y"]), make_step("b", outputs=["x"]))
    assert producers(stage) == {"x": ("a", "b"), "y": ("a",)}


def test_source_of_per_document_step_is_producer_of_first_input() -> None:
    a, b = make_step("a", outputs=["x"]), make_step("b", outputs=["y"])
    assert source_of(per_document("x", "y"), a, b) == "a"
    assert source_of(per_document("y", "x"), a, b) == "b"
    assert source_of(per_document(make_input("y", "here")), a, b) == "b"


def test_only_predecessor_is_source_of_step_without_declared_inputs() -> None:
    step = make_step("z", PER_DOCUMENT)
    assert source_of(step, make_step("a")) == "a"
    assert source_of(step, make_step("a"), make_step("b")) is None


def test_per_document_step_without_unique_producer_has_no_source() -> None:
    a, b = make_step("a", outputs=["x"]), make_step("b", outputs=["x"])
    assert source_of(per_document("x"), a, b) is None
    assert source_of(per_document("y"), a, b) is None
    assert source_of(per_document(), a) is None
    assert source_of(per_document(make_input("x", "there")), a) is None


@given(recipe=recipes())
def test_only_per_document_steps_with_predecessors_have_a_source(recipe: Recipe) -> None:
    graph = graph_of(recipe)
    for step in recipe.steps:
        source = primary_source(step, "stage", graph)
        behind = step.strategy is PER_DOCUMENT and bool(graph.predecessors[step.key])
        assert (source is not None) == behind
        if source is not None:
            assert primary_source_candidates(step, "stage", graph) == (source,)
            assert source in graph.predecessors[step.key]


@given(recipe=recipes())
def test_producers_of_every_document_are_listed_for_any_stage(recipe: Recipe) -> None:
    steps_by_document = producers(Stage("stage", "Stage", recipe))
    pairs = {(doc, key) for doc, keys in steps_by_document.items() for key in keys}
    assert pairs == {(doc, step.key) for step in recipe.steps for doc in output_keys(step)}
