"""Evaluation of each kind of node in an expression tree."""

from waybook.conditions import parser
from waybook.conditions.evaluator import _compiled
from waybook.conditions.parser import Node


def test_condition_compiler_handles_every_syntax_node_type() -> None:
    fallback = _compiled.dispatch(Node)
    kinds = [kind for kind in vars(parser).values() if isinstance(kind, type)]
    nodes = [kind for kind in kinds if issubclass(kind, Node) and kind is not Node]
    assert len(nodes) == 15
    assert all(_compiled.dispatch(kind) is not fallback for kind in nodes)
