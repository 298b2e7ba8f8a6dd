"""Order of a DAG's stages, the models of each stage, and the expected counts of a stage."""

import pytest
from hypothesis import given, settings

from dag_builders import dags, make_chain, make_dag, make_stage, make_step
from dag_runs import dag_counts
from waybook.dag.definitions.definition import graphs_of
from waybook.dag.model import Dag, Strategy
from waybook.dag.progress import structure as module
from waybook.dag.progress.structure import (
    Structure,
    effective_models,
    map_json,
    stage_order,
    structure_counts,
    valid_structure,
)

MODELS = ["alpha", "beta"]


@given(dags())
def test_stage_order_of_any_dag_is_consistent_with_the_transitions(dag: Dag) -> None:
    order = stage_order(dag)
    assert sorted(order) == sorted(stage.slug for stage in dag.stages)
    assert all(order.index(way.source) < order.index(way.target) for way in dag.transitions)


def test_parallel_stages_are_ordered_as_declared() -> None:
    stages = [make_stage(slug) for slug in ("start", "left", "right", "end")]
    ways = [*make_chain("start", "right", "end"), *make_chain("start", "left", "end")]
    assert stage_order(make_dag(*stages, transitions=ways)) == ["start", "left", "right", "end"]


def test_stage_without_models_uses_the_last_models_of_earlier_stages() -> None:
    models = effective_models(["a", "b", "c", "d"], {"a": ["x"], "b": [], "c": ["y", "z"]})
    assert models == {"a": ["x"], "b": ["x"], "c": ["y", "z"], "d": ["y", "z"]}


@settings(max_examples=50)
@given(dags())
def test_job_counts_of_a_map_equal_the_expected_counts(dag: Dag) -> None:
    graphs = graphs_of(dag)
    first = stage_order(dag)[0]
    counts = structure_counts(valid_structure(dag, graphs), {first: MODELS})
    assert counts == dag_counts(dag, graphs, dict.fromkeys(graphs, MODELS))


def test_job_counts_stop_at_the_first_invalid_stage() -> None:
    dag = make_dag(make_stage("a"), make_stage("b"), make_stage("c"))
    structure = Structure(dag=dag, graphs=graphs_of(dag), valid=frozenset({"a", "c"}))
    assert list(structure_counts(structure, {"a": MODELS})) == ["a"]


def test_job_counts_stop_after_stage_with_too_many_document_lineages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LINEAGES", 10)
    dag = make_dag(make_stage("a", *map(make_step, "xyz")), make_stage("b"), make_stage("c"))
    assert list(structure_counts(valid_structure(dag, graphs_of(dag)), {"a": MODELS})) == ["a"]


def test_map_has_step_order_first_and_last_steps_and_counts() -> None:
    steps = [make_step("a"), make_step("b", Strategy.ALL_TO_ONE), make_step("c", skip=True)]
    dag = make_dag(make_stage("thesis", *steps, edges=[("b", "a")]))
    assert map_json(valid_structure(dag, graphs_of(dag)), {"thesis": MODELS}) == {
        "stages": [
            {
                "stageSlug": "thesis",
                "order": ["b", "a", "c"],
                "roots": ["b", "c"],
                "leaves": ["a", "c"],
                "expected": {"total": 3, "steps": {"b": 1, "a": 2, "c": 0}},
            }
        ]
    }


def test_map_without_models_has_null_job_counts() -> None:
    dag = make_dag(make_stage("thesis"))
    (stage,) = map_json(valid_structure(dag, graphs_of(dag)), {})["stages"]
    assert stage["expected"] == {"total": None, "steps": {"thesis-work": None}}


def test_map_of_a_stage_without_valid_steps_is_empty() -> None:
    structure = Structure(dag=make_dag(make_stage("plan")), graphs={}, valid=frozenset())
    empty = {"order": [], "roots": [], "leaves": [], "expected": {"total": None, "steps": {}}}
    assert map_json(structure, {}) == {"stages": [{"stageSlug": "plan", **empty}]}
