"""Workflow definitions: parsing, errors with their locations, and serialization."""

from copy import deepcopy
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_json import any_json
from dag_builders import dags, make_input, make_output
from waybook.dag.definitions.definition import definition_schema, read_definition, write_definition
from waybook.dag.diagnostics import MAX_DIAGNOSTICS
from waybook.dag.model import Dag, JobType, RecipeStep, Strategy, Transition
from waybook.dag.templates.template import DEFAULT_DOCUMENT
from waybook.errors import BadRecipe

Raw = dict[str, object]
Faults = list[tuple[str, str]]

STEP: Raw = {"stepKey": "a", "jobType": "PLAN", "granularityStrategy": "all_to_one"}
STEPS_AT = "stages[0].recipe.steps"


def make_definition(*steps: Raw, **more: object) -> Raw:
    """Return a minimal workflow definition with one stage."""
    recipe: Raw = {"steps": [*(steps or (STEP,))]}
    return {"slug": "d", "stages": [{"slug": "one", "recipe": recipe}], **more}


def refusal(data: object, *, strict: bool = True) -> BadRecipe:
    with pytest.raises(BadRecipe) as refused:
        read_definition(data, strict=strict)
    return refused.value


def faults(data: object) -> Faults:
    errors = refusal(data).details["faults"]
    assert isinstance(errors, list)
    return [(fault["fault"], fault["at"]) for fault in errors]


def test_definition_reader_fills_missing_properties_with_defaults() -> None:
    dag = read_definition(make_definition(STEP, {**STEP, "stepKey": "b"}))
    assert (dag.name, dag.description, dag.transitions) == ("d", "", ())
    assert dag.stages[0].name == "one"
    assert dag.stages[0].recipe.edges == ()
    assert dag.stages[0].recipe.steps[1] == RecipeStep(
        key="b",
        number=2,
        name="b",
        job_type=JobType.PLAN,
        strategy=Strategy.ALL_TO_ONE,
        output_type="b",
        inputs=None,
        outputs=(),
        parallel_group=None,
        prompt="",
        skip=False,
    )


def test_definition_reader_treats_null_properties_as_missing() -> None:
    schema = definition_schema()["$defs"]
    assert isinstance(schema, dict)
    step = {**dict.fromkeys(schema["step"]["properties"]), **STEP}
    data = make_definition(step, name=None, description=None, transitions=None)
    assert read_definition(data) == read_definition(make_definition())


def test_definition_reader_reads_every_property_of_a_step() -> None:
    step: Raw = {
        **STEP,
        "stepNumber": 7.0,
        "name": "A step",
        "parallelGroup": 2.0,
        "outputType": "essay",
        "inputsRequired": [{"documentKey": "brief"}, {"documentKey": "x", "required": False}],
        "outputs": [{"documentKey": "essay", "render": "# Essay"}, {"documentKey": "notes"}],
        "prompt": "Write.",
        "skip": True,
    }
    (read,) = read_definition(make_definition(step)).stages[0].recipe.steps
    assert read == RecipeStep(
        key="a",
        number=7,
        name="A step",
        job_type=JobType.PLAN,
        strategy=Strategy.ALL_TO_ONE,
        output_type="essay",
        inputs=(make_input("brief"), make_input("x", required=False)),
        outputs=(make_output("essay", "# Essay"), make_output("notes")),
        parallel_group=2,
        prompt="Write.",
        skip=True,
    )
    assert (type(read.number), type(read.parallel_group)) == (int, int)


def test_step_with_an_empty_input_list_gets_no_inputs() -> None:
    (step,) = (
        read_definition(make_definition({**STEP, "inputsRequired": []})).stages[0].recipe.steps
    )
    assert step.inputs == ()


def test_definition_without_transitions_links_stages_in_order() -> None:
    stages = [{"slug": slug, "recipe": {"steps": [STEP]}} for slug in ("one", "two", "three")]
    dag = read_definition({"slug": "d", "stages": stages})
    assert dag.transitions == (Transition("one", "two"), Transition("two", "three"))


@given(dag=dags())
def test_definition_written_and_read_again_is_unchanged(dag: Dag) -> None:
    written = write_definition(dag)
    assert read_definition(written) == dag
    assert write_definition(read_definition(written)) == written


@pytest.mark.parametrize("missing", ["stepKey", "jobType", "granularityStrategy"])
def test_definition_with_a_missing_required_step_property_is_refused(missing: str) -> None:
    step = {name: value for name, value in STEP.items() if name != missing}
    refused = refusal(make_definition(step))
    assert refused.message == f"{STEPS_AT}[0]: {missing!r} is missing"


@pytest.mark.parametrize(
    ("name", "value", "at"),
    [
        ("stepKey", "", ".stepKey"),
        ("stepKey", 1, ".stepKey"),
        ("stepKey", "a\nb", ".stepKey"),
        ("stepKey", "\ud800", ".stepKey"),
        pytest.param("stepKey", "x" * 201, ".stepKey", id="a long key"),
        ("stepNumber", True, ".stepNumber"),
        ("stepNumber", 1.5, ".stepNumber"),
        ("stepNumber", -1, ".stepNumber"),
        pytest.param("stepNumber", 10**5000, ".stepNumber", id="a huge number"),
        ("stepNumber", float("inf"), ".stepNumber"),
        ("jobType", "plan", ".jobType"),
        ("outputType", "", ".outputType"),
        ("prompt", "a\0b", ".prompt"),
        pytest.param("prompt", "x" * 65_537, ".prompt", id="a long prompt"),
        ("skip", "yes", ".skip"),
        ("parallelGroup", [], ".parallelGroup"),
        ("inputsRequired", {}, ".inputsRequired"),
        ("inputsRequired", [{}], ".inputsRequired[0]"),
        ("inputsRequired", [{"documentKey": "x", "stage": ""}], ".inputsRequired[0].stage"),
        ("inputsRequired", [{"documentKey": "x"}] * 101, ".inputsRequired"),
        ("outputs", [{"documentKey": "x", "render": 1}], ".outputs[0].render"),
        ("outputs", ["x"], ".outputs[0]"),
    ],
)
def test_definition_with_an_invalid_property_is_refused_with_the_location(
    name: str, value: object, at: str
) -> None:
    step = {**STEP, "stepKey": "b", name: value}
    assert faults(make_definition(STEP, step)) == [("bad_form", f"{STEPS_AT}[1]{at}")]


def test_definition_with_job_type_render_is_refused() -> None:
    refused = refusal(make_definition({**STEP, "jobType": "RENDER"}))
    assert refused.details["fault"] == "bad_form"
    assert refused.message == f"{STEPS_AT}[0].jobType: 'RENDER' is not one of PLAN, EXECUTE"


def test_unknown_strategy_error_lists_strategies_and_nearest_match() -> None:
    refused = refusal(make_definition({**STEP, "granularityStrategy": "Per-Modell"}))
    assert refused.details["fault"] == "unknown_strategy"
    assert refused.details["at"] == f"{STEPS_AT}[0].granularityStrategy"
    assert all(strategy in refused.message for strategy in Strategy)
    assert refused.message.endswith("did you mean 'per_model'?")


def test_unknown_definition_property_is_refused_only_with_strict_true() -> None:
    data = make_definition({**STEP, "step_number": 1}, version=3)
    refused = refusal(data)
    assert faults(data) == [("bad_form", f"{STEPS_AT}[0]"), ("bad_form", "definition")]
    assert "'step_number' here; did you mean 'stepNumber'?" in refused.message
    assert read_definition(data, strict=False) == read_definition(make_definition())


def test_definition_with_a_dollar_schema_property_is_accepted() -> None:
    data = {**make_definition(), "$schema": "urn:waybook:definition"}
    assert read_definition(data) == read_definition(make_definition())


@pytest.mark.parametrize(
    ("data", "fault", "at"),
    [
        ({"slug": "d", "stages": []}, "no_stages", "stages"),
        (
            {"slug": "d", "stages": [{"slug": "s", "recipe": {"steps": []}}]},
            "no_steps",
            "stages[0].recipe.steps",
        ),
    ],
)
def test_definition_without_stages_or_steps_is_refused(data: object, fault: str, at: str) -> None:
    assert faults(data) == [(fault, at)]


@pytest.mark.parametrize(
    ("most", "data"),
    [
        (50, {"slug": "d", "stages": [{}] * 51}),
        (2_500, {**make_definition(), "transitions": [{}] * 2_501}),
        (10_000, make_definition(*[STEP] * 10_001)),
        (100_000, {"slug": "d", "stages": [{"slug": "s", "recipe": {"edges": [[]] * 100_001}}]}),
    ],
)
def test_error_for_a_too_large_definition_shows_limit_and_count(most: int, data: object) -> None:
    assert f"must have at most {most:,} items, not {most + 1:,}" in str(refusal(data).as_json())


def test_definition_with_many_errors_reports_a_limited_number_of_errors() -> None:
    refused = refusal(make_definition(*[{}] * 5_000))
    errors = refused.details["faults"]
    assert isinstance(errors, list)
    assert len(errors) == MAX_DIAGNOSTICS
    assert len(str(refused.as_json())) < 10_000


def test_schema_errors_and_graph_errors_are_reported_together() -> None:
    steps = [{**STEP, "stepKey": key} for key in "abc"]
    steps[1] = {**steps[1], "granularityStrategy": "each", "inputsRequired": [{}]}
    data = make_definition(*steps)
    data["stages"] = [
        {"slug": "one", "recipe": {"steps": steps, "edges": [["a", "x"], ["a", "c"], ["c", "a"]]}},
        {"slug": "two", "recipe": {"steps": [{**STEP, "prompt": "{{ nobody }"}]}},
    ]
    assert faults({**data, "transitions": [{"from": "one", "to": "three"}]}) == [
        ("unknown_strategy", f"{STEPS_AT}[1].granularityStrategy"),
        ("bad_form", f"{STEPS_AT}[1].inputsRequired[0]"),
        ("unknown_stage", "transitions[0].to"),
        ("dangling_edge", "stages[0].recipe.edges[0]"),
        ("cycle", "stages[0].recipe.edges"),
        ("bad_template", "stages[1].recipe.steps[0].prompt"),
    ]


def test_invalid_step_key_causes_no_further_errors_about_the_step() -> None:
    unnamed = {**STEP, "stepKey": 1, "outputType": "essay"}
    reader = {**STEP, "stepKey": "b", "inputsRequired": [{"documentKey": "essay"}]}
    data = make_definition()
    data["stages"] = [
        {"slug": "one", "recipe": {"steps": [unnamed, reader], "edges": [["a", "b"]]}}
    ]
    assert faults(data) == [("bad_form", f"{STEPS_AT}[0].stepKey")]


SCHEMA_ERRORS = frozenset({"bad_form", "no_stages", "no_steps", "unknown_strategy"})

JSON = any_json()


@given(data=JSON, strict=st.booleans())
def test_arbitrary_json_as_definition_raises_bad_recipe(data: object, strict: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
    refusal(data, strict=strict)


@given(data=st.data(), dag=dags(max_stages=2, max_steps=3), value=JSON, strict=st.booleans())
def test_single_invalid_value_never_causes_both_schema_and_other_errors(
    data: st.DataObject,
    dag: Dag,
    value: object,
    strict: bool,  # noqa: FBT001 - Hypothesis gives it
) -> None:
    spoilt = deepcopy(write_definition(dag))
    here: object = spoilt
    while isinstance(here, dict | list) and here:
        places = list(here) if isinstance(here, dict) else list(range(len(here)))
        place = data.draw(st.sampled_from(places))
        if data.draw(st.integers(0, 3)) == 0 or not isinstance(here[place], dict | list):
            here[place] = value
            break
        here = here[place]
    try:
        read_definition(spoilt, strict=strict)
    except BadRecipe as refused:
        names = {fault["fault"] for fault in cast("list[Raw]", refused.details["faults"])}
        assert names <= SCHEMA_ERRORS or not names & SCHEMA_ERRORS


def test_deeply_nested_definition_does_not_overflow_the_stack() -> None:
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    assert faults(deep) == [("bad_form", "definition")]
    assert faults(make_definition({**STEP, "prompt": deep})) == [
        ("bad_form", f"{STEPS_AT}[0].prompt")
    ]
    assert read_definition({**make_definition(), "more": deep}, strict=False).slug == "d"
    # Take the nested list apart, because Python would delete it by recursion, which is too deep.
    while isinstance(deep, list) and deep:
        deep = deep.pop()


@pytest.mark.parametrize(
    ("render", "read"),
    [(True, DEFAULT_DOCUMENT), ("", DEFAULT_DOCUMENT), (False, None), (None, None), ("x", "x")],
)
def test_render_property_of_an_output_selects_the_template(
    render: object, read: str | None
) -> None:
    outputs = [{"documentKey": "notes", "render": render}]
    [stage] = read_definition(make_definition({**STEP, "outputs": outputs})).stages
    assert stage.recipe.steps[0].outputs == (make_output("notes", read),)
