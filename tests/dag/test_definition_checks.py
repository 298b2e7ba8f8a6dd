"""Semantic errors in workflow definitions that match the schema."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import (
    Edges,
    dags,
    make_chain,
    make_dag,
    make_input,
    make_output,
    make_plan_step,
    make_stage,
    make_step,
)
from decision_proofs import decision
from waybook.dag.definitions.checks import MAX_TEMPLATE_LENGTH, definition_errors
from waybook.dag.diagnostics import Diagnostic
from waybook.dag.model import Dag, Input, Recipe, RecipeStep, Stage, Strategy, Transition

Faults = list[tuple[str, str]]

PER_DOCUMENT = Strategy.PER_SOURCE_DOCUMENT
STEPS_AT = "stages[0].recipe.steps"


def faults_in(dag: Dag) -> Faults:
    return [(fault.name, fault.at) for fault in definition_errors(dag)]


def faults_among(*steps: RecipeStep, edges: Edges = ()) -> Faults:
    """Return the errors in a DAG with one stage, called `one`."""
    return faults_in(make_dag(make_stage("one", *steps, edges=edges)))


def only_fault(dag: Dag, name: str) -> Diagnostic:
    (error,) = (fault for fault in definition_errors(dag) if fault.name == name)
    return error


@given(dag=dags())
def test_definition_check_reports_no_errors_for_a_valid_definition(dag: Dag) -> None:
    assert definition_errors(dag) == []


DANGLING = make_stage("two", make_step("a"), edges=[("a", "x")])
TWO = (make_stage("one"), make_stage("two"))


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (make_dag(*TWO, make_stage("one")), [("duplicate_stage", "stages[2].slug")]),
        (make_dag(*TWO, transitions=[("one", "x")]), [("unknown_stage", "transitions[0].to")]),
        (
            make_dag(*TWO, transitions=[("one", "two"), ("x", "two")]),
            [("unknown_stage", "transitions[1].from")],
        ),
        (
            make_dag(*TWO, transitions=[("one", "two"), ("one", "two")]),
            [("duplicate_transition", "transitions[1]")],
        ),
        (
            make_dag(*TWO, transitions=[("one", "two"), ("two", "one")]),
            [("stage_cycle", "transitions")],
        ),
        (
            make_dag(*TWO, make_stage("three"), transitions=[("one", "two"), ("three", "two")]),
            [("several_entries", "transitions")],
        ),
        (
            make_dag(*TWO, make_stage("three"), transitions=[("one", "two"), ("one", "three")]),
            [("several_terminals", "transitions")],
        ),
        (
            make_dag(*TWO, transitions=[]),
            [("several_entries", "transitions"), ("several_terminals", "transitions")],
        ),
        (
            make_dag(
                make_stage("one"), DANGLING, make_stage("three", make_step("a"), edges=[("a", "a")])
            ),
            [("dangling_edge", "stages[1].recipe.edges[0]"), ("cycle", "stages[2].recipe.edges")],
        ),
    ],
)
def test_definition_check_reports_the_path_of_invalid_stages(dag: Dag, expected: Faults) -> None:
    assert faults_in(dag) == expected


@pytest.mark.parametrize(
    ("steps", "edges", "expected"),
    [
        ([make_step("a"), make_step("a")], [], [("duplicate_key", f"{STEPS_AT}[1].stepKey")]),
        ([make_step("a")], [("a", "x")], [("dangling_edge", "stages[0].recipe.edges[0]")]),
        (
            [make_step("a"), make_step("b")],
            [("a", "b"), ("a", "b")],
            [("duplicate_edge", "stages[0].recipe.edges[1]")],
        ),
        ([*map(make_step, "abc")], make_chain(*"abca"), [("cycle", "stages[0].recipe.edges")]),
    ],
)
def test_definition_check_reports_the_path_of_invalid_edges(
    steps: list[RecipeStep], edges: Edges, expected: Faults
) -> None:
    assert faults_among(*steps, edges=edges) == expected


@decision("B12")
@pytest.mark.parametrize(
    ("inputs", "at", "expected"),
    [
        (None, "", "lists no inputs"),
        ([], "", "first input must be a document"),
        (["x"], ".inputsRequired[0]", "2 steps with an edge to it produce that: 'a', 'b'"),
        (["y"], ".inputsRequired[0]", "no step of this stage with an edge to it produces that"),
        ([make_input("x", "zero")], ".inputsRequired[0]", "no step of this stage"),
    ],
)
def test_per_document_step_without_a_single_source_step_is_refused(
    inputs: list[str | Input] | None, at: str, expected: str
) -> None:
    steps = (
        make_step("a", outputs=["x"]),
        make_step("b", outputs=["x"]),
        make_step("c", outputs=["y"]),
        make_step("d", PER_DOCUMENT, inputs=inputs),
    )
    stage = make_stage("one", *steps, edges=[("a", "d"), ("b", "d"), ("c", "a")])
    error = only_fault(make_dag(make_stage("zero"), stage), "primary_input")
    assert error.at == f"stages[1].recipe.steps[3]{at}"
    assert expected in error.message


@decision("B12")
def test_first_step_of_a_later_stage_may_use_per_document() -> None:
    dag = make_dag(make_stage("one"), make_stage("two", make_step("a", PER_DOCUMENT)))
    assert definition_errors(dag) == []


@decision("B15")
def test_definition_check_reports_missing_edge_from_the_producer() -> None:
    first, second = make_step("a", outputs=["x"]), make_step("b", inputs=["brief", "x"])
    error = only_fault(make_dag(make_stage("one", first, second)), "hidden_dependency")
    assert error.at == f"{STEPS_AT}[1].inputsRequired[1]"
    assert "'a' produces" in error.message
    assert error.message.endswith("add the edge ['a', 'b']")
    assert definition_errors(make_dag(make_stage("one", first, second, edges=[("a", "b")]))) == []


@pytest.mark.parametrize(
    ("stage", "fault"), [("three", "later_stage"), ("side", "later_stage"), ("x", "unknown_stage")]
)
def test_definition_check_reports_inputs_from_later_or_unknown_stages(
    stage: str, fault: str
) -> None:
    middle = make_stage(
        "two", make_step("a", inputs=[make_input("brief", "one"), make_input("z", stage)])
    )
    dag = make_dag(
        make_stage("one"),
        middle,
        make_stage("side"),
        make_stage("three"),
        transitions=[("one", "two"), ("one", "side"), ("two", "three"), ("side", "three")],
    )
    assert faults_in(dag) == [(fault, "stages[1].recipe.steps[0].inputsRequired[1].stage")]


def test_stage_order_is_not_checked_if_transitions_are_invalid() -> None:
    middle = make_stage(
        "two", make_step("a", inputs=[make_input("z", "one"), make_input("z", "x")])
    )
    assert faults_in(make_dag(make_stage("one"), middle, transitions=[])) == [
        ("several_entries", "transitions"),
        ("several_terminals", "transitions"),
        ("unknown_stage", "stages[1].recipe.steps[0].inputsRequired[1].stage"),
    ]


def test_definition_check_reports_invalid_templates() -> None:
    bad = make_step(
        "a", prompt="{{ run.name", outputs=[make_output("x"), make_output("y", "{% if %}")]
    )
    good = make_step("b", prompt="{{ run.name }}", outputs=[make_output("z", "{{ text }} {")])
    assert faults_among(good, bad, bad) == [
        ("duplicate_key", f"{STEPS_AT}[2].stepKey"),
        *(
            ("bad_template", f"{STEPS_AT}[{place}].{part}")
            for place in (1, 2)
            for part in ("prompt", "outputs[1].render")
        ),
    ]


def test_definition_check_reports_templates_beyond_the_length_limit() -> None:
    steps = [
        make_step(f"s{number}", prompt=f"{number} {{{{ run.name }}}} {'x' * 50_000}")
        for number in range(20)
    ]
    first_beyond = MAX_TEMPLATE_LENGTH // 50_500
    assert faults_among(*steps) == [("too_large", f"{STEPS_AT}[{first_beyond}].prompt")]


def test_definition_check_reports_several_errors_together() -> None:
    first_stage = make_stage(
        "one",
        make_step("a", outputs=["x"]),
        make_step("b", inputs=["x"], prompt="{{"),
        make_step("c", PER_DOCUMENT),
        edges=[("a", "c"), ("b", "c")],
    )
    two = make_stage(
        "two", make_plan_step("a", inputs=[make_input("y", "three")]), edges=[("a", "z")]
    )
    assert faults_in(make_dag(first_stage, two, make_stage("three"))) == [
        ("primary_input", f"{STEPS_AT}[2]"),
        ("hidden_dependency", f"{STEPS_AT}[1].inputsRequired[0]"),
        ("dangling_edge", "stages[1].recipe.edges[0]"),
        ("later_stage", "stages[1].recipe.steps[0].inputsRequired[0].stage"),
        ("bad_template", f"{STEPS_AT}[1].prompt"),
    ]


# Tests with arbitrarily damaged definitions.


def _edited(dag: Dag, place: int, edit: Callable[[Recipe], Recipe]) -> Dag:
    stages = list(dag.stages)
    stages[place] = replace(stages[place], recipe=edit(stages[place].recipe))
    return replace(dag, stages=tuple(stages))


def _with(*steps: RecipeStep) -> Callable[[Recipe], Recipe]:
    """Return a function that adds these steps to a recipe."""
    return lambda recipe: replace(recipe, steps=(*recipe.steps, *steps))


def _with_edges(make: Callable[[str], Edges]) -> Callable[[Recipe], Recipe]:
    """Return a function that adds the edges that `make` returns for the first step's key."""
    return lambda recipe: replace(recipe, edges=(*recipe.edges, *make(recipe.steps[0].key)))


def _with_a_lost_source(recipe: Recipe) -> Recipe:
    grown = _with(make_step("new", PER_DOCUMENT, inputs=["nothing"]))(recipe)
    return _with_edges(lambda key: [(key, "new")])(grown)


SPOILT: Mapping[str, Callable[[Recipe], Recipe]] = {
    "no_steps": lambda _: Recipe(()),
    "duplicate_key": lambda recipe: _with(recipe.steps[0])(recipe),
    "dangling_edge": _with_edges(lambda key: [(key, "nowhere")]),
    "duplicate_edge": _with_edges(lambda key: [(key, key)] * 2),
    "cycle": _with_edges(lambda key: [(key, key)]),
    "hidden_dependency": _with(
        make_step("new", inputs=["secret"]), make_step("other", outputs=["secret"])
    ),
    "primary_input": _with_a_lost_source,
    "unknown_stage": _with(make_step("new", inputs=[make_input("x", "nowhere")])),
    "bad_template": _with(make_step("new", prompt="{{ nothing.like.it }")),
}


@pytest.mark.parametrize("fault", SPOILT)
@settings(max_examples=30)
@given(data=st.data(), dag=dags(max_stages=3))
def test_definition_check_detects_every_kind_of_recipe_mistake(
    fault: str, data: st.DataObject, dag: Dag
) -> None:
    place = data.draw(st.integers(0, len(dag.stages) - 1))
    # A list of items in this stage may lose its only producer, which is an error in a later stage.
    spoilt = faults_in(_edited(dag, place, SPOILT[fault]))
    errors = [error for error in spoilt if error[0] != "item_list"]
    assert fault in {name for name, _ in errors}
    assert all(at.startswith(f"stages[{place}].recipe") for _, at in errors)


STAGES_SPOILT: Mapping[str, Callable[[Dag], Dag]] = {
    "duplicate_stage": lambda dag: replace(dag, stages=(*dag.stages, dag.stages[0])),
    "several_entries": lambda dag: replace(dag, stages=(*dag.stages, make_stage("new"))),
    "several_terminals": lambda dag: replace(dag, stages=(*dag.stages, make_stage("new"))),
    "stage_cycle": lambda dag: _with_ways(dag, (dag.stages[0].slug, dag.stages[0].slug)),
    "unknown_stage": lambda dag: _with_ways(dag, (dag.stages[0].slug, "nowhere")),
    "duplicate_transition": lambda dag: _with_ways(dag, ("x", "y"), ("x", "y")),
}


def _with_ways(dag: Dag, *ways: tuple[str, str]) -> Dag:
    return replace(dag, transitions=(*dag.transitions, *(Transition(*way) for way in ways)))


@pytest.mark.parametrize("fault", STAGES_SPOILT)
@settings(max_examples=30)
@given(dag=dags(max_stages=3, max_steps=2))
def test_definition_check_detects_every_kind_of_stage_mistake(fault: str, dag: Dag) -> None:
    assert fault in {name for name, _ in faults_in(STAGES_SPOILT[fault](dag))}


def test_definition_check_accepts_ten_thousand_steps() -> None:
    keys = [f"s{number}" for number in range(10_000)]
    steps = [make_step(key, inputs=["s0"] if key != "s0" else None, number=1) for key in keys]
    edges = [*make_chain(*keys), *zip(keys, keys[7:], strict=False)]
    dag = make_dag(Stage("one", "One", Recipe(tuple(steps), tuple(edges))))
    assert definition_errors(dag) == []
