"""Map of a workflow: the order of stages, the models of each stage, and expected job counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import dags, make_chain, make_dag, make_plan_step, make_stage, make_step
from dag_runs import dag_counts
from waybook.dag.definitions.definition import graphs_of
from waybook.dag.expansion.units import item_lists
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


def test_stage_without_models_uses_models_of_nearest_earlier_stage() -> None:
    models = effective_models(["a", "b", "c", "d"], {"a": ["x"], "b": [], "c": ["y", "z"]})
    assert models == {"a": ["x"], "b": ["x"], "c": ["y", "z"], "d": ["y", "z"]}


@settings(max_examples=50)
@given(dags())
def test_structure_counts_and_dag_counts_return_the_same_job_counts(dag: Dag) -> None:
    graphs = graphs_of(dag)
    first = stage_order(dag)[0]
    lengths = {item_list.name: 2 for item_list in item_lists(dag).values()}
    counts = structure_counts(valid_structure(dag, graphs), {first: MODELS}, lengths)
    assert counts == dag_counts(dag, graphs, dict.fromkeys(graphs, MODELS), lengths)


@settings(max_examples=100)
@given(dags(), st.data())
def test_job_count_bounds_stay_correct_when_lists_become_known(
    dag: Dag, data: st.DataObject
) -> None:
    graphs = graphs_of(dag)
    structure, models = valid_structure(dag, graphs), {stage_order(dag)[0]: MODELS}
    lists = {item_list.name: item_list for item_list in item_lists(dag).values()}
    known = data.draw(st.sets(st.sampled_from(sorted(lists)))) if lists else set()
    lengths = {
        name: data.draw(st.integers(0, 5 if item_list.max_items is None else item_list.max_items))
        for name, item_list in lists.items()
    }
    before = structure_counts(structure, models, {name: lengths[name] for name in known})
    after = structure_counts(structure, models, lengths)
    for slug, counts in after.items():
        for key, units in counts.units.items():
            count = before[slug].jobs(key)
            assert count.known in {None, units}
            assert count.at_most is None or units <= count.at_most
            assert units >= before[slug].units[key]
        total = before[slug].total_jobs
        assert total.known in {None, counts.total}
        assert total.at_most is None or counts.total <= total.at_most
        assert counts.limits == {}


def test_map_shows_exact_job_counts_upper_bounds_or_null() -> None:
    steps = [
        make_plan_step("find", outputs=["clauses"]),
        make_step("read", Strategy.PER_ITEM_AND_MODEL, inputs=["contracts"], max_items=40),
        make_step("look", Strategy.PER_ITEM, inputs=["clauses"]),
    ]
    dag = make_dag(make_stage("only", *steps, edges=[("find", "look")]))
    structure = valid_structure(dag, graphs_of(dag))
    (before,) = map_json(structure, {"only": MODELS})["stages"]
    assert before["expected"] == {
        "total": None,
        "steps": {"find": 1, "read": None, "look": None},
        "atMost": {"read": 80},
    }
    (after,) = map_json(structure, {"only": MODELS}, {"contracts": 30, "only/clauses": 4})["stages"]
    assert after["expected"] == {"total": 65, "steps": {"find": 1, "read": 60, "look": 4}}


def test_step_with_a_job_per_item_of_a_skipped_step_has_no_jobs() -> None:
    steps = [
        make_plan_step("find", outputs=["clauses"], skip=True),
        make_step("look", Strategy.PER_ITEM, inputs=["clauses"], max_items=9),
    ]
    dag = make_dag(make_stage("only", *steps, edges=[("find", "look")]))
    (stage,) = map_json(valid_structure(dag, graphs_of(dag)), {"only": MODELS})["stages"]
    assert stage["expected"] == {"total": 0, "steps": {"find": 0, "look": 0}}


def test_first_invalid_stage_and_later_stages_have_no_job_counts() -> None:
    dag = make_dag(make_stage("a"), make_stage("b"), make_stage("c"))
    structure = Structure(dag=dag, graphs=graphs_of(dag), valid=frozenset({"a", "c"}))
    assert list(structure_counts(structure, {"a": MODELS})) == ["a"]


def test_no_job_counts_are_computed_after_too_many_document_lineages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_LINEAGES", 10)
    dag = make_dag(make_stage("a", *map(make_step, "xyz")), make_stage("b"), make_stage("c"))
    assert list(structure_counts(valid_structure(dag, graphs_of(dag)), {"a": MODELS})) == ["a"]


def test_map_contains_step_order_first_and_last_steps_and_job_counts() -> None:
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
