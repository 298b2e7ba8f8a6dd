"""Syntax tree of a condition.

Each node has `at`, its position in the source. A chain of `&&` or `||` is one node with many
operands, so that a long chain does not make the tree deep.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Operator(StrEnum):
    """Binary operators that evaluate both operands."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IN = "in"
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"


class MacroName(StrEnum):
    """Macros that iterate over a list or the keys of a map."""

    EXISTS = "exists"
    ALL = "all"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class Node:
    at: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """Node for `operand.field`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Has(Node):
    """Node for `has(operand.field)`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """Node for `operand[key]`."""

    operand: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """Node for `function(arguments)` or `receiver.function(arguments)`."""

    function: str
    receiver: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Macro(Node):
    """Node for `source.macro(variable, body)`."""

    macro: MacroName
    source: Node
    variable: str
    body: Node


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Negate(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Either(Node):
    """Node for `a || b || …`."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Both(Node):
    """Node for `a && b && …`."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """Node for `condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf(Node):
    """Node for `{"key": value}`, with string literals as keys, as in JSON."""

    keys: tuple[str, ...]
    items: tuple[Node, ...]


def children(node: Node) -> list[Node]:
    nodes: list[Node] = []
    for name in node.__slots__:
        part: object = getattr(node, name)
        parts = part if isinstance(part, tuple) else (part,)
        nodes.extend(part for part in parts if isinstance(part, Node))
    return nodes


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in children(node))


def paths(tree: Node) -> Iterator[tuple[str, ...]]:
    """Yield the names and field chains that a condition reads, such as `result.count`."""
    path = _path(tree)
    if path is not None:
        yield path
        return
    for child in children(tree):
        yield from paths(child)


def _path(node: Node) -> tuple[str, ...] | None:
    match node:
        case Name(name=name):
            return (name,)
        case Select(operand=operand, field=field) | Has(operand=operand, field=field):
            before = _path(operand)
            return None if before is None else (*before, field)
    return None


def size(tree: Node) -> int:
    return sum(1 for _ in walk(tree))
