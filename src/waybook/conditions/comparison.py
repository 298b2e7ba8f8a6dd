"""Conditions that compare one field with one value, so that a form can edit them."""

import json
from dataclasses import dataclass
from typing import Final

import orjson

from waybook.conditions.condition import compile_condition
from waybook.conditions.parser import parse
from waybook.conditions.syntax import (
    Binary,
    Call,
    Index,
    Literal,
    Name,
    Negate,
    Node,
    Operator,
    Select,
)
from waybook.conditions.values import ConditionError
from waybook.errors import BadExpression

COMPARISONS: Final = (
    Operator.EQUAL,
    Operator.UNEQUAL,
    Operator.LESS,
    Operator.AT_MOST,
    Operator.GREATER,
    Operator.AT_LEAST,
)
TEXT_FUNCTIONS: Final = ("contains", "startsWith", "endsWith")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Field, operator and value of a condition, as entered in a form.

    A value that looks like JSON is read as JSON. Any other value is a text.
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
    """Return the condition as an expression. It may not compile.

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
        case Call(
            function=operator, receiver=Node() as left, arguments=(Literal(value=str() as s),)
        ):
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
