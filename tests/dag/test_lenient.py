"""Definitions of other systems: one error removes no more from a report than it must."""

import pytest
from hypothesis import given, settings

from dag_builders import a_chain, a_dag, a_stage, a_step, dags
from dag_evidence import Body
from decisions import decision
from waybook.dag.definitions.definition import graphs_of, write_definition
from waybook.dag.model import Dag
from waybook.dag.snapshots.lenient import read_leniently
from waybook.errors import BadRecipe

DAG = a_dag(
    a_stage("thesis", a_step("plan"), a_step("write"), edges=a_chain("plan", "write")),
    a_stage("antithesis"),
    a_stage("synthesis"),
)


def a_definition() -> Body:
    return write_definition(DAG)


@settings(max_examples=50)
@given(dags())
def test_what_is_sound_is_read_as_it_is(dag: Dag) -> None:
    found = read_leniently(write_definition(dag))
    assert found.structure.dag == dag
    assert found.structure.graphs == graphs_of(dag)
    assert found.structure.valid == {stage.slug for stage in dag.stages}
    assert found.warnings == {}


@decision("B16")
def test_a_stage_with_a_cycle_is_not_walked_and_the_others_are_sound() -> None:
    definition = a_definition()
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    found = read_leniently(definition)
    assert set(found.structure.graphs) == found.structure.valid == {"antithesis", "synthesis"}
    (warning,) = found.warnings["thesis"]
    assert warning.startswith("recipe.edges: the steps wait for each other")


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
def test_a_fault_that_leaves_steps_and_edges_leaves_the_walk(spoil: Body, warning: str) -> None:
    definition = a_definition()
    definition["stages"][0]["recipe"]["steps"][0] |= spoil
    found = read_leniently(definition)
    assert found.structure.graphs["thesis"].order == ("plan", "write")
    assert found.structure.valid == {"antithesis", "synthesis"}
    assert any(warning in said for said in found.warnings["thesis"])


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
def test_without_steps_and_edges_there_is_nothing_to_walk(recipe: object) -> None:
    definition = a_definition()
    definition["stages"][1]["recipe"] = recipe
    found = read_leniently(definition)
    assert "antithesis" not in found.structure.graphs
    assert found.warnings["antithesis"]


def test_bare_steps_keep_their_order_and_what_is_skipped() -> None:
    definition = a_definition()
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
def test_a_stage_without_a_slug_of_its_own_goes_by_its_place(slug: object) -> None:
    definition = a_definition()
    definition["stages"][1]["slug"] = slug
    del definition["transitions"]
    found = read_leniently(definition)
    assert [stage.slug for stage in found.structure.dag.stages] == [
        "thesis",
        "stages[1]",
        "synthesis",
    ]
    assert found.warnings["stages[1]"] == ["slug: it has none of its own, and goes by its place"]
    assert found.structure.valid == {"thesis", "synthesis"}


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
def test_where_the_way_is_not_clear_nothing_is_expected_but_all_is_walked(
    ways: list[object],
) -> None:
    found = read_leniently({**a_definition(), "transitions": ways})
    walked = {slug: graph.order for slug, graph in found.structure.graphs.items()}
    assert walked == {slug: graph.order for slug, graph in graphs_of(DAG).items()}
    assert found.structure.valid == frozenset()
    assert found.warnings[None]


def test_a_fault_that_only_the_whole_shows_is_told_too() -> None:
    definition = a_definition()
    later = [{"documentKey": "synthesis-work", "stage": "synthesis"}]
    definition["stages"][0]["recipe"]["steps"][0]["inputsRequired"] = later
    found = read_leniently(definition)
    assert found.structure.valid == {"thesis", "antithesis", "synthesis"}
    (warning,) = found.warnings[None]
    assert warning.startswith("stages[0].recipe.steps[0].inputsRequired[0].stage: no transitions")


def test_a_dag_without_a_name_is_told_and_its_stages_are_sound() -> None:
    definition = a_definition()
    del definition["slug"]
    found = read_leniently(definition)
    assert found.structure.valid == {"thesis", "antithesis", "synthesis"}
    assert found.warnings[None] == ["definition: 'slug' is missing"]


def test_more_stages_than_we_take_are_walked_all_the_same() -> None:
    many = [{**a_definition()["stages"][0], "slug": f"s{n}"} for n in range(60)]
    found = read_leniently({"slug": "many", "stages": many})
    assert len(found.structure.graphs) == 60
    assert found.structure.valid == frozenset()


@pytest.mark.parametrize("data", [None, [], {}, {"stages": []}, {"stages": "x"}])
def test_without_stages_there_is_nothing_to_read(data: object) -> None:
    with pytest.raises(BadRecipe):
        read_leniently(data)
