"""Transitions between the stages of a DAG."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import Edges, dags, make_dag, make_stage
from waybook.dag.definitions.checks import stages_before, transition_errors
from waybook.dag.model import Dag

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def make_way(slugs: str, ways: Edges) -> Dag:
    return make_dag(*map(make_stage, slugs), transitions=ways)


def error_messages(slugs: str, *ways: tuple[str, str]) -> list[str]:
    return [fault.message for fault in transition_errors(make_way(slugs, ways))]


def test_stages_before_a_stage_include_all_indirect_predecessors() -> None:
    assert stages_before(make_way("dcba", DIAMOND)) == {
        "a": frozenset(),
        "b": {"a"},
        "c": {"a"},
        "d": {"a", "b", "c"},
    }


def test_single_stage_without_transitions_is_valid() -> None:
    assert error_messages("a") == []


def test_transitions_that_split_and_join_again_are_valid() -> None:
    assert error_messages("abcd", *DIAMOND) == []


@pytest.mark.parametrize(
    ("ways", "messages"),
    [
        ([("a", "a")], ["the stages form a cycle: a → a"]),
        ([("a", "b"), ("b", "c"), ("c", "a")], ["the stages form a cycle: b → c → a → b"]),
        ([("a", "b"), ("b", "c"), ("c", "b")], ["the stages form a cycle: c → b → c"]),
        (
            [("a", "b")],
            [
                "exactly one stage must be the first, but no transition leads to any of 'a', 'c'",
                "exactly one stage must be the last, but no transition leads from any of 'b', 'c'",
            ],
        ),
        ([("a", "b"), ("b", "c"), ("b", "x")], ["there is no stage 'x'"]),
        (
            [("a", "b"), ("b", "c"), ("a", "b")],
            ["the transition from 'a' to 'b' occurs twice"],
        ),
    ],
)
def test_invalid_transitions_are_reported_with_messages(ways: Edges, messages: list[str]) -> None:
    slugs = "a" if ways == [("a", "a")] else "abc"
    assert error_messages(slugs, *ways) == messages


def test_duplicate_or_unknown_stage_hides_other_transition_errors() -> None:
    assert error_messages("aab") == ["the slug 'a' is used twice"]
    assert error_messages("ab", ("x", "y")) == ["there is no stage 'x'", "there is no stage 'y'"]


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
