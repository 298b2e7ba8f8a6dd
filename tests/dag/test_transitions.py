"""Transitions between the stages of a DAG."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dag_builders import Edges, dags, make_dag, make_stage
from waybook.dag.definitions.checks import stages_before, transition_errors
from waybook.dag.model import Dag

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def make_way(slugs: str, ways: Edges) -> Dag:
    return make_dag(*map(make_stage, slugs), transitions=ways)


def test_stages_before_a_stage_include_all_indirect_predecessors() -> None:
    assert stages_before(make_way("dcba", DIAMOND)) == {
        "a": frozenset(),
        "b": {"a"},
        "c": {"a"},
        "d": {"a", "b", "c"},
    }


@given(dag=dags(max_steps=1))
def test_transitions_of_any_valid_dag_have_no_errors(dag: Dag) -> None:
    assert transition_errors(dag) == []
    before = stages_before(dag)
    assert all(before[way.target] >= {way.source} | before[way.source] for way in dag.transitions)
    assert sum(not predecessors for predecessors in before.values()) == 1


@given(dag=dags(max_steps=1), data=st.data())
def test_stages_before_a_stage_do_not_depend_on_transition_order(
    dag: Dag, data: st.DataObject
) -> None:
    shuffled = replace(dag, transitions=tuple(data.draw(st.permutations(dag.transitions))))
    assert stages_before(shuffled) == stages_before(dag)
