"""Turns each node of a checked syntax tree into a Python function."""

from collections.abc import Callable, Mapping
from functools import singledispatch
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waybook.conditions import operators
from waybook.conditions.operators import has, index, select
from waybook.conditions.parser import (
    Binary,
    Both,
    Call,
    Conditional,
    Either,
    Has,
    Index,
    ListOf,
    Literal,
    Macro,
    MacroName,
    MapOf,
    Name,
    Negate,
    Node,
    Not,
    Operator,
    Select,
    size,
    walk,
)
from waybook.conditions.values import (
    SCALAR_TYPES,
    Budget,
    ConditionError,
    Frame,
    Json,
    Run,
    kind,
    to_cel_value,
)

Scope: TypeAlias = Mapping[str, int]
_Operation: TypeAlias = Callable[[Json, Json, int, Budget], Json]

_OPERATIONS: Mapping[Operator, _Operation] = MappingProxyType(
    {
        Operator.EQUAL: operators.equal,
        Operator.UNEQUAL: operators.unequal,
        Operator.LESS: operators.less,
        Operator.AT_MOST: operators.at_most,
        Operator.GREATER: operators.greater,
        Operator.AT_LEAST: operators.at_least,
        Operator.IN: operators.member,
        Operator.ADD: operators.add,
        Operator.SUBTRACT: operators.subtract,
        Operator.MULTIPLY: operators.multiply,
        Operator.DIVIDE: operators.divide,
        Operator.MODULO: operators.modulo,
    }
)


class Program(NamedTuple):
    run: Run
    cost: int
    slots: int


def program(tree: Node) -> Program:
    macros = sum(isinstance(node, Macro) for node, _ in walk(tree))
    return Program(run=_compiled(tree, MappingProxyType({})), cost=size(tree), slots=macros)


def start(compiled: Program, values: Mapping[str, Json], budget: Budget) -> Json:
    """Evaluate a compiled condition with these values of its variables.

    Raises:
        ConditionError: the evaluation results in a CEL error.
        BudgetExceeded: the budget is exhausted.
    """
    budget.spend(compiled.cost, 0)
    return compiled.run(Frame(values, [None] * compiled.slots, budget))


@singledispatch
def _compiled(node: Node, scope: Scope) -> Run:
    raise NotImplementedError(node, scope)


@_compiled.register(Literal)
def _literal(node: Literal, _: Scope) -> Run:
    value = node.value
    return lambda _: value


@_compiled.register(Name)
def _name(node: Name, scope: Scope) -> Run:
    at, name, slot = node.at, node.name, scope.get(node.name)

    def variable(frame: Frame) -> Json:
        if name not in frame.values:
            raise ConditionError(f"there is no {name} here", at)
        value = frame.values[name]
        return value if type(value) in SCALAR_TYPES else to_cel_value(value, at)

    def bound(frame: Frame, slot: int = slot or 0) -> Json:
        return frame.bound[slot]

    return variable if slot is None else bound


@_compiled.register(ListOf)
def _list(node: ListOf, scope: Scope) -> Run:
    items = tuple(_compiled(item, scope) for item in node.items)
    return lambda frame: [item(frame) for item in items]


@_compiled.register(MapOf)
def _map(node: MapOf, scope: Scope) -> Run:
    entries = tuple(
        (key, _compiled(item, scope)) for key, item in zip(node.keys, node.items, strict=True)
    )
    return lambda frame: {key: item(frame) for key, item in entries}


@_compiled.register(Select)
def _select(node: Select, scope: Scope) -> Run:
    operand, field, at = _compiled(node.operand, scope), node.field, node.at
    return lambda frame: select(operand(frame), field, at)


@_compiled.register(Has)
def _has(node: Has, scope: Scope) -> Run:
    operand, field, at = _compiled(node.operand, scope), node.field, node.at
    return lambda frame: has(operand(frame), field, at)


@_compiled.register(Index)
def _index(node: Index, scope: Scope) -> Run:
    operand, key, at = _compiled(node.operand, scope), _compiled(node.key, scope), node.at
    return lambda frame: index(operand(frame), key(frame), at, frame.budget)


@_compiled.register(Binary)
def _binary(node: Binary, scope: Scope) -> Run:
    operation, at = _OPERATIONS[node.operator], node.at
    left, right = _compiled(node.left, scope), _compiled(node.right, scope)
    return lambda frame: operation(left(frame), right(frame), at, frame.budget)


@_compiled.register(Negate)
def _negate(node: Negate, scope: Scope) -> Run:
    operand, at = _compiled(node.operand, scope), node.at
    return lambda frame: operators.negate(operand(frame), at)


@_compiled.register(Not)
def _not(node: Not, scope: Scope) -> Run:
    return operators.negation(node.at, _compiled(node.operand, scope))


@_compiled.register(Either)
def _either(node: Either, scope: Scope) -> Run:
    operands = tuple((part.at, _compiled(part, scope)) for part in node.operands)
    return operators.junction("||", operands, settles=True)


@_compiled.register(Both)
def _both(node: Both, scope: Scope) -> Run:
    operands = tuple((part.at, _compiled(part, scope)) for part in node.operands)
    return operators.junction("&&", operands, settles=False)


@_compiled.register(Conditional)
def _conditional(node: Conditional, scope: Scope) -> Run:
    parts = (node.condition, node.then, node.otherwise)
    return operators.conditional(node.at, *(_compiled(part, scope) for part in parts))


@_compiled.register(Call)
def _call(node: Call, scope: Scope) -> Run:
    at = node.at
    parts = node.arguments if node.receiver is None else (node.receiver, *node.arguments)
    runs = [_compiled(part, scope) for part in parts]
    if node.function == "size":
        return lambda frame: operators.size(runs[0](frame), at)
    test, (text, part) = operators.TEXT_TESTS[node.function], runs

    def run(frame: Frame) -> Json:
        full_text, piece = text(frame), part(frame)
        if type(full_text) is str and type(piece) is str:
            return test(full_text, piece, at, frame.budget)
        kinds = f"found {kind(full_text)} and {kind(piece)},"
        raise ConditionError(f"{node.function} needs two strings, {kinds}", at)

    return run


@_compiled.register(Macro)
def _macro(node: Macro, scope: Scope) -> Run:
    slot = len(scope)
    source = _compiled(node.source, scope)
    body = _compiled(node.body, MappingProxyType({**scope, node.variable: slot}))
    build = operators.selection if node.macro is MacroName.FILTER else operators.quantifier
    return build(node, source, body, slot=slot, cost=1 + size(node.body))
