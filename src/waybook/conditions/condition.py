"""Branch conditions: compiled when a plan is written, evaluated when a step completes.

The language is a subset of CEL over JSON values. Types are checked only during evaluation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from waybook.conditions.evaluator import Program, program, start
from waybook.conditions.operators import SIGNATURES
from waybook.conditions.parser import (
    Binary,
    Call,
    Index,
    Literal,
    Macro,
    Name,
    Negate,
    Node,
    Operator,
    Select,
    children,
    parse,
    walk,
)
from waybook.conditions.values import Budget, BudgetExceeded, ConditionError, Json, kind
from waybook.errors import BadExpression

VARIABLES = ("result", "confidence", "report", "step", "plan")

#: Maximum depth of the expression tree. A chain of `&&` or `||` counts as one level.
MAX_TREE_DEPTH = 64

_SUGGESTED_FUNCTION = {
    "any": "exists",
    "every": "all",
    "includes": "contains",
    "len": "size",
    "length": "size",
    "count": "size",
    "some": "exists",
    "startswith": "startsWith",
    "endswith": "endsWith",
}

_SUGGESTED_CONSTANT = {
    "True": "true",
    "False": "false",
    "None": "null",
    "nil": "null",
    "undefined": "null",
    "not": "!",
}


def check(tree: Node) -> None:
    """Reject a syntax tree that is too deep or uses an unknown name."""
    for node, depth in walk(tree):
        if depth > MAX_TREE_DEPTH:
            text = f"the expression is more than {MAX_TREE_DEPTH} operations deep"
            raise ConditionError(text, node.at, "split the condition")
    _check_names(tree, frozenset(VARIABLES))


def _check_names(node: Node, known: frozenset[str]) -> None:
    match node:
        case Name():
            _check_name(node, known)
        case Call():
            signature = SIGNATURES.get(node.function)
            if signature is None:
                raise _unknown_function(node)
            if node.receiver is None and not signature.bare:
                raise ConditionError(
                    f"{node.function} is a method,", node.at, f"write {signature.example}"
                )
            expected = signature.arguments + (node.receiver is None)
            if len(node.arguments) != expected:
                text = (
                    f"{node.function} takes {expected} here, but {len(node.arguments)} are given,"
                )
                raise ConditionError(text, node.at, f"write {signature.example}")
        case Macro():
            _check_names(node.source, known)
            _check_names(node.body, known | {node.variable})
            return
    for child in children(node):
        _check_names(child, known)


def _check_name(node: Name, known: frozenset[str]) -> None:
    if node.name in known:
        return
    text = f"unknown name '{node.name}'"
    if suggestion := _SUGGESTED_CONSTANT.get(node.name):
        raise ConditionError(text, node.at, f"did you mean {suggestion}?", hint=suggestion)
    hint = f"result.{node.name}"
    names = ", ".join(VARIABLES)
    advice = f'did you mean {hint}, or the string "{node.name}"? The names are {names}'
    raise ConditionError(text, node.at, advice, hint=hint)


def _unknown_function(node: Call) -> ConditionError:
    text = f"unknown function '{node.function}'"
    if suggestion := _SUGGESTED_FUNCTION.get(node.function):
        return ConditionError(text, node.at, f"did you mean {suggestion}?", hint=suggestion)
    functions = ", ".join(SIGNATURES)
    return ConditionError(
        text, node.at, f"there are {functions}, has, and the macros exists, all, filter"
    )


MAX_SOURCE_LENGTH = 1_000


class Outcome(NamedTuple):
    fired: bool
    error: str | None
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    source: str
    tree: Node
    program: Program = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Json], budget: Budget | None = None) -> Outcome:
        """Evaluate the condition. Errors are returned in the outcome and never raised.

        >>> condition = compile_condition("confidence < 0.5 && size(result.sources) == 0")
        >>> condition.evaluate({"confidence": 0.3, "result": {"sources": []}})
        Outcome(fired=True, error=None, cost=9)
        >>> condition.evaluate({"confidence": 0.3, "result": {}}).error
        "no field 'sources' at position 32; test it with has() first"
        """
        budget = budget or Budget()
        try:
            value = start(self.program, values, budget)
        except ConditionError as fault:
            fault.__traceback__ = None
            return Outcome(fired=False, error=str(fault), cost=budget.spent)
        except BudgetExceeded as exhausted:
            return Outcome(fired=False, error=str(exhausted), cost=budget.spent)
        if type(value) is bool:
            return Outcome(fired=value, error=None, cost=budget.spent)
        error = f"the condition is of type {kind(value)}, neither true nor false"
        return Outcome(fired=False, error=error, cost=budget.spent)


def compile_condition(source: str) -> Condition:
    """Compile a condition. All errors in its text are raised here, not during evaluation.

    Raises:
        BadExpression: the text does not compile; the error's details contain `position`, `source`
            and, if available, `hint`.
    """
    try:
        _check_text(source)
        tree = parse(source)
        check(tree)
    except ConditionError as error:
        raise _refusal(error, source[:MAX_SOURCE_LENGTH]) from None
    return Condition(source=source, tree=tree, program=program(tree))


def _refusal(error: ConditionError, source: str) -> BadExpression:
    if error.hint is None:
        return BadExpression(str(error), position=error.at, source=source)
    return BadExpression(str(error), position=error.at, source=source, hint=error.hint)


def _check_text(source: str) -> None:
    if len(source) > MAX_SOURCE_LENGTH:
        text = f"the condition has {len(source)} characters, {MAX_SOURCE_LENGTH} are allowed,"
        raise ConditionError(text, MAX_SOURCE_LENGTH, "shorten it")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise ConditionError("half a surrogate pair is no character", error.start) from None


COMPARISONS: Final = (
    Operator.EQUAL,
    Operator.UNEQUAL,
    Operator.LESS,
    Operator.AT_MOST,
    Operator.GREATER,
    Operator.AT_LEAST,
)
TEXT_FUNCTIONS: Final = ("contains", "startsWith", "endsWith")


class Comparison(NamedTuple):
    """Field, operator and value of a simple condition, as a person enters them in a form.

    A value that is a valid JSON scalar is read as JSON. Any other value is a text.
    """

    field: str
    operator: str
    value: str


def is_field(text: str) -> bool:
    """Return whether a text names one field, such as `result.items[0].name`.

    >>> is_field("result.count"), is_field('result["a b"]'), is_field("result ==")
    (True, True, False)
    """
    try:
        return _path(parse(text)) is not None
    except ConditionError:
        return False


def write_comparison(comparison: Comparison) -> str:
    """Return the condition as an expression, without checking that it compiles.

    >>> write_comparison(Comparison(field="result.n", operator="==", value="0"))
    'result.n == 0'
    >>> write_comparison(Comparison(field="report", operator="contains", value="no data"))
    'report.contains("no data")'
    """
    field, value = comparison.field.strip(), comparison.value
    if comparison.operator in TEXT_FUNCTIONS:
        return f"{field}.{comparison.operator}({_quote(_text(value))})"
    literal = _json_literal(value.strip())
    return f"{field} {comparison.operator} {_quote(value) if literal is None else literal}"


def read_comparison(source: str) -> Comparison | None:
    """Return field, operator and value of an expression, or None if it is not a comparison.

    >>> read_comparison("confidence < 0.5")
    Comparison(field='confidence', operator='<', value='0.5')
    >>> print(read_comparison("confidence < 0.5 && result == 1"))
    None
    """
    try:
        tree = compile_condition(source).tree
    except BadExpression:
        return None
    match tree:
        case Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
            field, value = _path(left), _value_text(right)
        case Call(function=operator, receiver=left, arguments=(Literal(value=str() as s),)) if left:
            field, value = _path(left), _plain_or_quoted(s)
        case _:
            return None
    if field is None or value is None:
        return None
    return Comparison(field=field, operator=str(operator), value=value)


def _path(node: Node) -> str | None:
    match node:
        case Name(name=name):
            return name
        case Select(operand=operand, field=field):
            path = _path(operand)
            return f"{path}.{field}" if path else None
        case Index(operand=operand, key=Literal(value=key)) if isinstance(key, int | str):
            path = _path(operand)
            return (
                f"{path}[{_quote(key) if isinstance(key, str) else json.dumps(key)}]"
                if path
                else None
            )
    return None


def _value_text(node: Node) -> str | None:
    match node:
        case Literal(value=str() as text):
            return _plain_or_quoted(text)
        case Literal(value=value):
            return json.dumps(value)
        case Negate(operand=Literal(value=value)) if isinstance(value, int | float):
            return f"-{json.dumps(value)}"
    return None


def _plain_or_quoted(text: str) -> str:
    is_kept = text == text.strip() != "" and "\n" not in text and "\r" not in text
    return text if is_kept and _json_literal(text) is None else _quote(text)


def _text(value: str) -> str:
    literal = _json_literal(value.strip())
    if literal is None or not literal.startswith('"'):
        return value
    text: str = orjson.loads(literal)
    return text


def _json_literal(text: str) -> str | None:
    """Return the text if it is a JSON scalar, else None."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return (
        None
        if isinstance(value, list | dict)
        else _quote(value)
        if isinstance(value, str)
        else text
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
