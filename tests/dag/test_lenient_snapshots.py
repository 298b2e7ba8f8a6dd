"""Invalid workflow definitions of other systems: reports leave out only the invalid parts."""

import pytest
from hypothesis import given, settings

from dag_builders import dags, make_chain, make_dag, make_stage, make_step
from dag_evidence import Body
from waybook.dag.definitions.definition import graphs_of, write_definition
from waybook.dag.model import Dag
from waybook.dag.snapshots.snapshot import read_leniently
from waybook.errors import BadRecipe

DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write")),
    make_stage("antithesis"),
    make_stage("synthesis"),
)


def make_definition() -> Body:
    return write_definition(DAG)


@settings(max_examples=50)
@given(dags())
def test_valid_definition_in_a_snapshot_causes_no_warnings(dag: Dag) -> None:
    result = read_leniently(write_definition(dag))
    assert result.structure.dag == dag
    assert result.structure.graphs == graphs_of(dag)
    assert result.structure.valid == {stage.slug for stage in dag.stages}
    assert result.warnings == {}


def test_cycle_makes_only_the_affected_stage_invalid() -> None:
    definition = make_definition()
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    result = read_leniently(definition)
    assert set(result.structure.graphs) == result.structure.valid == {"antithesis", "synthesis"}
    (warning,) = result.warnings["thesis"]
    assert warning.startswith("recipe.edges: the steps form a cycle")


@pytest.mark.parametrize(
    ("spoil", "warning"),
    [
        ({"granularityStrategy": "per_moon"}, "recipe.steps[0].granularityStrategy: 'per_moon'"),
        ({"jobType": None}, "recipe.steps[0].jobType: must be text"),
        (
            {"inputsRequired": [{"documentKey": "write"}]},
            "recipe.steps[0].inputsRequired[0]: 'plan' needs 'write'",
        ),
        (
            {"inputsRequired": [{"documentKey": "x", "stage": "sonata"}]},
            "there is no stage 'sonata'",
        ),
        ({"prompt": "{{ nothing here"}, "recipe.steps[0].prompt"),
    ],
    ids=["strategy", "type", "hidden dependency", "stage", "template"],
)
def test_invalid_step_property_in_a_snapshot_keeps_the_step_order(
    spoil: Body, warning: str
) -> None:
    definition = make_definition()
    definition["stages"][0]["recipe"]["steps"][0] |= spoil
    result = read_leniently(definition)
    assert result.structure.graphs["thesis"].order == ("plan", "write")
    assert result.structure.valid == {"antithesis", "synthesis"}
    assert any(warning in message for message in result.warnings["thesis"])


@pytest.mark.parametrize(
    "recipe",
    [
        None,
        [],
        {},
        {"steps": []},
        {"steps": [{}]},
        {"steps": [{"stepKey": 3}]},
        {"steps": [{"stepKey": "a"}], "edges": "ab"},
        {"steps": [{"stepKey": "a"}], "edges": [["a"]]},
        {"steps": [{"stepKey": "a"}], "edges": [["a", "b"]]},
        {"steps": [{"stepKey": "a"}, {"stepKey": "a"}]},
    ],
    ids=str,
)
def test_snapshot_stage_without_valid_steps_and_edges_has_no_graph(recipe: object) -> None:
    definition = make_definition()
    definition["stages"][1]["recipe"] = recipe
    result = read_leniently(definition)
    assert "antithesis" not in result.structure.graphs
    assert result.warnings["antithesis"]


def test_incomplete_snapshot_steps_keep_position_and_skip_flag() -> None:
    definition = make_definition()
    definition["stages"][1]["recipe"] = {
        "steps": [
            {"stepKey": "b", "stepNumber": 2},
            {"stepKey": "a", "stepNumber": 1, "skip": True},
        ]
    }
    graph = read_leniently(definition).structure.graphs["antithesis"]
    assert graph.order == ("a", "b")
    assert [graph.steps[key].skip for key in graph.order] == [True, False]


@pytest.mark.parametrize("slug", [None, "", 7, "thesis"])
def test_snapshot_stage_without_a_unique_slug_is_named_by_position(slug: object) -> None:
    definition = make_definition()
    definition["stages"][1]["slug"] = slug
    del definition["transitions"]
    result = read_leniently(definition)
    assert [stage.slug for stage in result.structure.dag.stages] == [
        "thesis",
        "stages[1]",
        "synthesis",
    ]
    assert result.warnings["stages[1]"] == ["slug: missing or not unique; the position is used"]
    assert result.structure.valid == {"thesis", "synthesis"}


@pytest.mark.parametrize(
    "ways",
    [
        [["thesis", "antithesis"]],
        [{"from": "thesis", "to": "sonata"}],
        [{"from": "thesis", "to": "antithesis"}],
        [{"from": "thesis", "to": "antithesis"}, {"from": "antithesis", "to": "thesis"}],
    ],
    ids=str,
)
def test_wrong_transitions_in_a_snapshot_make_all_stages_invalid(ways: list[object]) -> None:
    result = read_leniently({**make_definition(), "transitions": ways})
    walked = {slug: graph.order for slug, graph in result.structure.graphs.items()}
    assert walked == {slug: graph.order for slug, graph in graphs_of(DAG).items()}
    assert result.structure.valid == frozenset()
    assert result.warnings[None]


def test_input_from_a_later_stage_causes_a_warning() -> None:
    definition = make_definition()
    later = [{"documentKey": "synthesis-work", "stage": "synthesis"}]
    definition["stages"][0]["recipe"]["steps"][0]["inputsRequired"] = later
    result = read_leniently(definition)
    assert result.structure.valid == {"thesis", "antithesis", "synthesis"}
    (warning,) = result.warnings[None]
    assert warning.startswith("stages[0].recipe.steps[0].inputsRequired[0].stage: no transitions")


def test_snapshot_stages_are_read_without_a_dag_slug() -> None:
    definition = make_definition()
    del definition["slug"]
    result = read_leniently(definition)
    assert result.structure.valid == {"thesis", "antithesis", "synthesis"}
    assert result.warnings[None] == ["definition: 'slug' is missing"]


def test_snapshot_with_too_many_stages_is_read_completely() -> None:
    many = [{**make_definition()["stages"][0], "slug": f"s{n}"} for n in range(60)]
    result = read_leniently({"slug": "many", "stages": many})
    assert len(result.structure.graphs) == 60
    assert result.structure.valid == frozenset()


@pytest.mark.parametrize("data", [None, [], {}, {"stages": []}, {"stages": "x"}])
def test_snapshot_definition_without_stages_raises_bad_recipe(data: object) -> None:
    with pytest.raises(BadRecipe):
        read_leniently(data)
