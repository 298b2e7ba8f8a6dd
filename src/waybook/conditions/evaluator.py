"""Turns a checked syntax tree into a Python function."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, cast

from waybook.conditions.parser import MACROS, Node, walk
from waybook.conditions.values import (
    ABSORBED_ERROR,
    BINARY,
    SCALAR_TYPES,
    UNARY,
    Budget,
    ConditionError,
    Json,
    kind,
    to_cel_value,
    truth,
)


@dataclass(slots=True)
class _Frame:
    values: Mapping[str, Json]
    #: Values of the macros' variables.
    bound: list[Json]
    budget: Budget


_Run: TypeAlias = Callable[[_Frame], Json]
#: Maps the variables of the enclosing macros to their positions in `_Frame.bound`.
_Scope: TypeAlias = Mapping[str, int]

#: Function that evaluates a condition with given values of its variables. It raises a
#: ConditionError if the result is a CEL error, and BudgetExceeded if the budget is exhausted.
Program: TypeAlias = Callable[[Mapping[str, Json], Budget], Json]


def program(tree: Node) -> Program:
    cost, run = _size(tree), _compiled(tree, {})
    slots = sum(node.kind in MACROS for node, _ in walk(tree))

    def start(values: Mapping[str, Json], budget: Budget) -> Json:
        budget.spend(cost, 0)
        return run(_Frame(values, [None] * slots, budget))

    return start


def _size(tree: Node) -> int:
    return sum(1 for _ in walk(tree))


def _compiled(node: Node, scope: _Scope) -> _Run:
    if node.kind in MACROS:
        return _macro(node, scope)
    if node.kind == "name":
        return _name(node, scope)
    at, name = node.at, node.name
    parts = tuple(_compiled(part, scope) for part in node.parts)
    function = name if node.kind in {"call", "method"} else node.kind
    if function in UNARY:
        (operand,), unary = parts, UNARY[function]
        return lambda frame: unary(operand(frame), name, at)
    if function in BINARY:
        (left, right), binary = parts, BINARY[function]
        return lambda frame: binary(left(frame), right(frame), at, frame.budget)
    return _BUILDERS[function](node, *parts)


def _name(node: Node, scope: _Scope) -> _Run:
    at, name = node.at, node.name
    if name in scope:
        slot = scope[name]
        return lambda frame: frame.bound[slot]

    def variable(frame: _Frame) -> Json:
        if name not in frame.values:
            raise ConditionError(f"the variable {name} has no value here", at)
        value = frame.values[name]
        return value if type(value) in SCALAR_TYPES else to_cel_value(value, at)

    return variable


def _literal(node: Node) -> _Run:
    value = node.value
    return lambda _: value


def _map(node: Node, *items: _Run) -> _Run:
    entries = tuple(zip(cast("tuple[str, ...]", node.value), items, strict=True))
    return lambda frame: {key: item(frame) for key, item in entries}


def _conditional(node: Node, condition: _Run, then: _Run, otherwise: _Run) -> _Run:
    at = node.at
    return lambda frame: then(frame) if truth(condition(frame), "?", at) else otherwise(frame)


def _junction(node: Node, *operands: _Run) -> _Run:
    runs = tuple(zip((part.at for part in node.parts), operands, strict=True))
    sign, settles = node.kind, node.kind == "||"
    return lambda frame: _decide(sign, runs, frame, settles=settles)


_BUILDERS: Mapping[str, Callable[..., _Run]] = MappingProxyType(
    {
        "literal": _literal,
        "list": lambda _, *items: lambda frame: [item(frame) for item in items],
        "map": _map,
        "?": _conditional,
        "||": _junction,
        "&&": _junction,
    }
)


def _macro(node: Node, scope: _Scope) -> _Run:
    at, macro, slot, cost = node.at, node.kind, len(scope), 1 + _size(node.parts[1])
    body_at = node.parts[1].at
    source = _compiled(node.parts[0], scope)
    body = _compiled(node.parts[1], {**scope, node.name: slot})

    def bind_each(frame: _Frame) -> Iterator[Json]:
        group = source(frame)
        if type(group) is not list and type(group) is not dict:
            raise ConditionError(f"{macro} needs a list or a map, but found {kind(group)},", at)
        for item in group:
            frame.budget.spend(cost, at)
            frame.bound[slot] = item if type(item) in SCALAR_TYPES else to_cel_value(item, at)
            yield item

    def selection(frame: _Frame) -> Json:
        return [item for item in bind_each(frame) if truth(body(frame), macro, body_at)]

    def quantifier(frame: _Frame) -> Json:
        runs = ((body_at, body) for _ in bind_each(frame))
        return _decide(macro, runs, frame, settles=macro == "exists")

    return selection if macro == "filter" else quantifier


def _decide(
    sign: str, operands: Iterable[tuple[int, _Run]], frame: _Frame, *, settles: bool
) -> bool:
    """Evaluate `&&`, `||`, `all` or `exists`: return `settles` if an operand has this value.

    Otherwise, return the opposite. An error of an operand is raised only if no operand has the
    value `settles`.
    """
    error: ConditionError | None = None
    for at, operand in operands:
        try:
            if truth(operand(frame), sign, at) is settles:
                return settles
        except ConditionError as caught:
            frame.budget.spend(ABSORBED_ERROR, at)
            caught.__traceback__ = None
            error = error or caught
    if error is not None:
        raise error
    return not settles
