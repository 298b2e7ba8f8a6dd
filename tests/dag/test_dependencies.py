"""Hidden dependencies: a step needs the document of another step, but no edges connect them."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dag_builders import Edges, make_chain, make_stage, make_step, recipes
from waybook.dag.definitions.checks import MAX_PRODUCERS_CHECKED, hidden_dependencies
from waybook.dag.diagnostics import Diagnostic
from waybook.dag.graph import Graph, graph_of, producers
from waybook.dag.model import Recipe, RecipeStep, Stage


def hidden(*steps: RecipeStep, edges: Edges = ()) -> list[Diagnostic]:
    stage = make_stage("here", *steps, edges=edges)
    return list(hidden_dependencies(stage, graph_of(stage.recipe), "recipe"))


def error_message(*steps: RecipeStep, edges: Edges = ()) -> str:
    (error,) = hidden(*steps, edges=edges)
    return error.message


MAKER = make_step("maker", outputs=["x"])
READER = make_step("reader", inputs=["x"])


def test_error_for_unconnected_input_names_producer_and_missing_edge() -> None:
    (error,) = hidden(MAKER, make_step("m"), READER, edges=make_chain("m", "reader"))
    assert error.name == "hidden_dependency"
    assert error.at == "recipe.steps[2].inputsRequired[0]"
    assert error.message == (
        "'reader' needs 'x', which 'maker' produces, but no path of edges leads from that step "
        "to this one: add the edge ['maker', 'reader']"
    )


def test_step_that_reads_documents_of_the_same_step_is_refused() -> None:
    step = make_step("a", inputs=["x"], outputs=["x"])
    assert error_message(step) == "'a' needs 'x', which only this step produces"


def test_suggested_edge_never_creates_a_cycle() -> None:
    late = make_chain("reader", "maker")
    assert error_message(MAKER, READER, edges=late) == (
        "'reader' needs 'x', which 'maker' produces, but that step depends on this one"
    )
    other = make_step("other", outputs=["x"])
    assert error_message(MAKER, READER, other, edges=late).endswith(
        "add the edge ['other', 'reader']"
    )


def test_missing_edge_check_examines_a_limited_number_of_producers() -> None:
    makers = [make_step(f"m{number}", outputs=["x"]) for number in range(MAX_PRODUCERS_CHECKED + 1)]
    late = [("reader", maker.key) for maker in makers[:-1]]
    assert error_message(READER, *makers, edges=late).endswith("that step depends on this one")


def _before(key: str, graph: Graph) -> set[str]:
    """Return all predecessors of a step, by a simple but slow algorithm."""
    predecessors: set[str] = set()
    waiting = [*graph.predecessors[key]]
    while waiting:
        source = waiting.pop()
        if source not in predecessors:
            predecessors.add(source)
            waiting += graph.predecessors[source]
    return predecessors


def _expected(stage: Stage, graph: Graph, makers: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        f"recipe.steps[{number}].inputsRequired[{place}]"
        for number, step in enumerate(stage.recipe.steps)
        for place, wanted in enumerate(step.inputs or ())
        if wanted.required and wanted.stage in {None, stage.slug}
        if wanted.document_key in makers
        if not _before(step.key, graph).intersection(makers[wanted.document_key])
    ]


@given(recipe=recipes(), data=st.data())
def test_dependency_check_reports_exactly_the_unconnected_inputs(
    recipe: Recipe, data: st.DataObject
) -> None:
    edges = [edge for edge in recipe.edges if not data.draw(st.integers(0, 2))]
    stage = Stage("stage", "Stage", replace(recipe, edges=tuple(edges)))
    graph = graph_of(stage.recipe)
    paths = [fault.at for fault in hidden_dependencies(stage, graph, "recipe")]
    assert paths == _expected(stage, graph, producers(stage))
