"""Parses the tokens of a condition into a syntax tree, according to CEL's grammar.

::

    expression = or ["?" or ":" expression]
    or         = and {"||" and}
    and        = relation {"&&" relation}
    relation   = sum {("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") sum}
    sum        = product {("+" | "-") product}
    product    = unary {("*" | "/" | "%") unary}
    unary      = {"!"} member | {"-"} member
    member     = primary {"." name ["(" arguments ")"] | "[" expression "]"}
    primary    = literal | name ["(" arguments ")"] | "(" expression ")" | list | map

Two spellings are additions to CEL: ``===`` and ``!==`` mean ``==`` and ``!=``. The macros `has`,
`exists`, `all` and `filter` receive their arguments unevaluated and are expanded during parsing, as
in CEL.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, get_args

from waybook.conditions.tokens import Cursor, Kind, read_double, read_int, read_string
from waybook.conditions.values import ConditionError


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


class Literal(NamedTuple):
    at: int
    value: bool | int | float | str | None


class Name(NamedTuple):
    at: int
    name: str


class Select(NamedTuple):
    """Node for `operand.field`."""

    at: int
    operand: "Node"
    field: str


class Has(NamedTuple):
    """Node for `has(operand.field)`."""

    at: int
    operand: "Node"
    field: str


class Index(NamedTuple):
    """Node for `operand[key]`."""

    at: int
    operand: "Node"
    key: "Node"


class Call(NamedTuple):
    """Node for `function(arguments)` or `receiver.function(arguments)`."""

    at: int
    function: str
    receiver: "Node | None"
    arguments: "tuple[Node, ...]"


class Macro(NamedTuple):
    """Node for `source.macro(variable, body)`."""

    at: int
    macro: MacroName
    source: "Node"
    variable: str
    body: "Node"


class Not(NamedTuple):
    at: int
    operand: "Node"


class Negate(NamedTuple):
    at: int
    operand: "Node"


class Binary(NamedTuple):
    at: int
    operator: Operator
    left: "Node"
    right: "Node"


class Either(NamedTuple):
    """Node for `a || b || …`."""

    at: int
    operands: "tuple[Node, ...]"


class Both(NamedTuple):
    """Node for `a && b && …`."""

    at: int
    operands: "tuple[Node, ...]"


class Conditional(NamedTuple):
    """Node for `condition ? then : otherwise`."""

    at: int
    condition: "Node"
    then: "Node"
    otherwise: "Node"


class ListOf(NamedTuple):
    at: int
    items: "tuple[Node, ...]"


class MapOf(NamedTuple):
    """Node for `{"key": value}`, with string literals as keys, as in JSON."""

    at: int
    keys: tuple[str, ...]
    items: "tuple[Node, ...]"


#: A node of the syntax tree. `at` is its position in the source.
Node: TypeAlias = (
    Literal
    | Name
    | Select
    | Has
    | Index
    | Call
    | Macro
    | Not
    | Negate
    | Binary
    | Either
    | Both
    | Conditional
    | ListOf
    | MapOf
)
_NODE_CLASSES = get_args(Node)


def children(node: Node) -> list[Node]:
    nodes: list[Node] = []
    for part in node:
        # Nodes are tuples too, so check for nodes before tuples.
        if isinstance(part, _NODE_CLASSES):
            nodes.append(part)
        elif isinstance(part, tuple):
            nodes.extend(item for item in part if isinstance(item, _NODE_CLASSES))
    return nodes


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in children(node))


def paths(tree: Node) -> Iterator[tuple[str, ...]]:
    """Yield each path that a condition reads, such as `("result", "count")`."""
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


_LOOPS = frozenset(MacroName)
_LOOP_ARGUMENTS = 2


def expand(at: int, name: str, receiver: Node | None, arguments: tuple[Node, ...]) -> Node:
    """Return the node for a function call, or the expanded node for the call of a macro."""
    if name == "has":
        return _has(at, receiver, arguments)
    if name in _LOOPS:
        return _loop(at, MacroName(name), receiver, arguments)
    return Call(at, name, receiver, arguments)


def _has(at: int, receiver: Node | None, arguments: tuple[Node, ...]) -> Has:
    match receiver, arguments:
        case None, (Select(_, operand, field),):
            return Has(at, operand, field)
    raise ConditionError("has needs one field, and nothing else,", at, "write has(result.name)")


def _loop(at: int, name: MacroName, receiver: Node | None, arguments: tuple[Node, ...]) -> Macro:
    if receiver is None or len(arguments) != _LOOP_ARGUMENTS:
        raise ConditionError(
            f"{name} needs a list before it, a variable and an expression,",
            at,
            f"write result.list.{name}(x, x > 0)",
        )
    variable, body = arguments
    if not isinstance(variable, Name):
        raise ConditionError(f"the variable of {name} must be a simple name", variable.at)
    return Macro(at, name, receiver, variable.name, body)


_RELATION, _SUM, _PRODUCT = 1, 2, 3

# fmt: off
_OPERATORS: Mapping[str, tuple[int, Operator]] = MappingProxyType({
    "==":  (_RELATION, Operator.EQUAL),
    "===": (_RELATION, Operator.EQUAL),
    "!=":  (_RELATION, Operator.UNEQUAL),
    "!==": (_RELATION, Operator.UNEQUAL),
    "<":   (_RELATION, Operator.LESS),
    "<=":  (_RELATION, Operator.AT_MOST),
    ">":   (_RELATION, Operator.GREATER),
    ">=":  (_RELATION, Operator.AT_LEAST),
    "in":  (_RELATION, Operator.IN),
    "+":   (_SUM,      Operator.ADD),
    "-":   (_SUM,      Operator.SUBTRACT),
    "*":   (_PRODUCT,  Operator.MULTIPLY),
    "/":   (_PRODUCT,  Operator.DIVIDE),
    "%":   (_PRODUCT,  Operator.MODULO),
})
# fmt: on

_CONSTANTS: Mapping[str, bool | None] = MappingProxyType(
    {"true": True, "false": False, "null": None}
)

_KEYWORDS = frozenset({*_CONSTANTS, "in"})

_RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"}
    | {"package", "namespace", "return", "var", "void", "while", "__result__"}
)


def parse(source: str) -> Node:
    cursor = Cursor(source)
    if cursor.at_end():
        raise ConditionError("the condition is empty", 0, "write true for one that always fires")
    tree = _expression(cursor)
    if not cursor.at_end():
        raise cursor.unexpected()
    return tree


def _expression(cursor: Cursor) -> Node:
    cursor.enter()
    tree = _either(cursor)
    if cursor.peek_is("?"):
        question = cursor.take()
        then = _either(cursor)
        cursor.expect(":", question)
        tree = Conditional(question.at, tree, then, _expression(cursor))
    cursor.leave()
    return tree


def _either(cursor: Cursor) -> Node:
    at = cursor.token.at
    operands = [_both(cursor)]
    while cursor.skip("||"):
        operands.append(_both(cursor))
    return operands[0] if len(operands) == 1 else Either(at, tuple(operands))


def _both(cursor: Cursor) -> Node:
    at = cursor.token.at
    operands = [_binary(cursor, _RELATION)]
    while cursor.skip("&&"):
        operands.append(_binary(cursor, _RELATION))
    return operands[0] if len(operands) == 1 else Both(at, tuple(operands))


def _binary(cursor: Cursor, floor: int) -> Node:
    """Parse left-associative binary operators with a precedence of at least `floor`."""
    left = _unary(cursor)
    while (entry := _OPERATORS.get(cursor.token.text)) and entry[0] >= floor:
        level, operator = entry
        at = cursor.take().at
        left = Binary(at, operator, left, _binary(cursor, level + 1))
    return left


def _unary(cursor: Cursor) -> Node:
    """Parse a row of `!` or of `-`. As in CEL, two successive signs cancel out."""
    at = cursor.token.at
    if cursor.peek_is("!"):
        odd = _odd(cursor, "!")
        operand = _member(cursor)
        return Not(at, operand) if odd else operand
    if cursor.peek_is("-") and not cursor.peek_is_signed_number():
        odd = _odd(cursor, "-")
        operand = _member(cursor)
        return Negate(at, operand) if odd else operand
    return _member(cursor)


def _odd(cursor: Cursor, sign: str) -> bool:
    odd = False
    while cursor.skip(sign):
        odd = not odd
    return odd


def _member(cursor: Cursor) -> Node:
    node = _primary(cursor)
    while True:
        token = cursor.token
        if cursor.skip("."):
            node = _field(cursor, node)
        elif cursor.skip("["):
            node = Index(token.at, node, _expression(cursor))
            cursor.expect("]", token)
        else:
            return node


def _field(cursor: Cursor, operand: Node) -> Node:
    name = cursor.token
    if name.kind is not Kind.NAME:
        raise cursor.unexpected("expected a field name")
    if name.text in _KEYWORDS:
        raise cursor.unexpected(f'write ["{name.text}"] for a field of this name')
    cursor.take()
    if cursor.peek_is("("):
        return expand(name.at, name.text, operand, _arguments(cursor))
    return Select(name.at, operand, name.text)


def _primary(cursor: Cursor) -> Node:
    token = cursor.token
    if token.kind is Kind.NAME:
        return _name(cursor)
    if token.kind is Kind.STRING:
        cursor.take()
        return Literal(token.at, read_string(token.text, token.at))
    if token.kind in {Kind.INT, Kind.DOUBLE} or cursor.peek_is_signed_number():
        return _number(cursor)
    if cursor.skip("("):
        inner = _expression(cursor)
        cursor.expect(")", token)
        return inner
    if cursor.peek_is("["):
        return _list(cursor)
    if cursor.peek_is("{"):
        return _map(cursor)
    raise cursor.unexpected("expected a value")


def _name(cursor: Cursor) -> Node:
    name = cursor.token
    if name.text == "in":
        raise cursor.unexpected("expected a value")
    if name.text in _RESERVED:
        raise ConditionError(f"{name} is a reserved word", name.at)
    cursor.take()
    if name.text in _CONSTANTS:
        return Literal(name.at, _CONSTANTS[name.text])
    if cursor.peek_is("("):
        return expand(name.at, name.text, None, _arguments(cursor))
    return Name(name.at, name.text)


def _number(cursor: Cursor) -> Literal:
    at = cursor.token.at
    negative = cursor.skip("-")
    token = cursor.take()
    if token.kind is Kind.INT:
        return Literal(at, read_int(token.text, at, negative=negative))
    return Literal(at, read_double(token.text, negative=negative))


def _arguments(cursor: Cursor) -> tuple[Node, ...]:
    opened = cursor.take()
    if cursor.skip(")"):
        return ()
    arguments = [_expression(cursor)]
    while cursor.skip(","):
        arguments.append(_expression(cursor))
    cursor.expect(")", opened)
    return tuple(arguments)


def _list(cursor: Cursor) -> Node:
    """Parse a list. As in CEL, a trailing comma is accepted."""
    opened = cursor.take()
    items: list[Node] = []
    if not cursor.skip(","):
        while not cursor.peek_is("]"):
            items.append(_expression(cursor))
            if not cursor.skip(","):
                break
    cursor.expect("]", opened)
    return ListOf(opened.at, tuple(items))


def _map(cursor: Cursor) -> Node:
    opened = cursor.take()
    entries: dict[str, Node] = {}
    if not cursor.skip(","):
        while not cursor.peek_is("}"):
            key = _key(cursor, entries)
            cursor.expect(":")
            entries[key] = _expression(cursor)
            if not cursor.skip(","):
                break
    cursor.expect("}", opened)
    return MapOf(opened.at, tuple(entries), tuple(entries.values()))


def _key(cursor: Cursor, taken: Mapping[str, Node]) -> str:
    token = cursor.token
    if token.kind is not Kind.STRING:
        raise cursor.unexpected("the keys of a map are string literals, as in JSON")
    key = read_string(cursor.take().text, token.at)
    if key in taken:
        raise ConditionError(f"the key {token} is there twice", token.at)
    return key
