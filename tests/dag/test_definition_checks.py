"""Errors in workflow definitions that the schema does not find, such as missing edges."""

import pytest
from hypothesis import given

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
from waybook.dag.definitions.checks import MAX_TEMPLATE_LENGTH, check_structure
from waybook.dag.diagnostics import Diagnostic
from waybook.dag.model import Dag, Input, Recipe, RecipeStep, Stage, Strategy

Faults = list[tuple[str, str]]

PER_DOCUMENT = Strategy.PER_SOURCE_DOCUMENT
STEPS_AT = "stages[0].recipe.steps"


def faults_in(dag: Dag) -> Faults:
    return [(fault.name, fault.at) for fault in check_structure(dag)[0]]


def faults_among(*steps: RecipeStep, edges: Edges = ()) -> Faults:
    """Return the errors in a DAG with one stage, called `one`."""
    return faults_in(make_dag(make_stage("one", *steps, edges=edges)))


def only_fault(dag: Dag, name: str) -> Diagnostic:
    (error,) = (fault for fault in check_structure(dag)[0] if fault.name == name)
    return error


@given(dag=dags())
def test_definition_check_reports_no_errors_for_a_valid_definition(dag: Dag) -> None:
    assert check_structure(dag)[0] == []


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
def test_definition_check_reports_the_location_of_invalid_stages(
    dag: Dag, expected: Faults
) -> None:
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
def test_definition_check_reports_the_location_of_invalid_edges(
    steps: list[RecipeStep], edges: Edges, expected: Faults
) -> None:
    assert faults_among(*steps, edges=edges) == expected


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
def test_first_input_of_per_document_step_needs_a_unique_producer(
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


def test_per_document_step_may_be_first_in_a_later_stage() -> None:
    dag = make_dag(make_stage("one"), make_stage("two", make_step("a", PER_DOCUMENT)))
    assert check_structure(dag)[0] == []


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


def test_definition_check_accepts_ten_thousand_steps() -> None:
    keys = [f"s{number}" for number in range(10_000)]
    steps = [make_step(key, inputs=["s0"] if key != "s0" else None, number=1) for key in keys]
    edges = [*make_chain(*keys), *zip(keys, keys[7:], strict=False)]
    dag = make_dag(Stage("one", "One", Recipe(tuple(steps), tuple(edges))))
    assert check_structure(dag)[0] == []
