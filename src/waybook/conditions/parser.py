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
from types import MappingProxyType
from typing import NamedTuple

from waybook.conditions.tokens import Cursor, read_number, read_string
from waybook.conditions.values import ConditionError, Json


class Node(NamedTuple):
    """A node of the syntax tree.

    ====================================  ======================================================
    kind                                  parts
    ====================================  ======================================================
    ``literal``                           none; the literal is in `value`
    ``name``                              none; the variable is in `name`
    ``field``, ``has``                    the operand; the field is in `name`
    ``index``                             the operand and the key
    ``call``, ``method``                  the arguments; for a method, its receiver is the first
    a macro of `MACROS`                   the source and the body; the variable is in `name`
    ``not``, ``negate``                   the operand
    a binary operator                     both operands
    ``||``, ``&&``                        all operands of the chain
    ``?``                                 the condition and the two branches
    ``list``, ``map``                     the items; the keys of a map are in `value`
    ====================================  ======================================================
    """

    at: int
    kind: str
    parts: "tuple[Node, ...]" = ()
    name: str = ""
    value: Json = None


def walk(tree: Node) -> Iterator[tuple[Node, int]]:
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((part, depth + 1) for part in node.parts)


def paths(tree: Node) -> Iterator[tuple[str, ...]]:
    """Yield each path that a condition reads, such as `("result", "count")`."""
    path = _path(tree)
    if path is not None:
        yield path
        return
    for part in tree.parts:
        yield from paths(part)


def _path(node: Node) -> tuple[str, ...] | None:
    if node.kind == "name":
        return (node.name,)
    before = _path(node.parts[0]) if node.kind in {"field", "has"} else None
    return None if before is None else (*before, node.name)


#: Macros that iterate over a list or the keys of a map.
MACROS = frozenset({"exists", "all", "filter"})
_MACRO_ARGUMENTS = 2

_RELATION, _SUM, _PRODUCT = 1, 2, 3
_PRECEDENCE: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("==", "===", "!=", "!==", "<", "<=", ">", ">=", "in"), _RELATION),
        **dict.fromkeys(("+", "-"), _SUM),
        **dict.fromkeys(("*", "/", "%"), _PRODUCT),
    }
)
_ADDED_SPELLINGS: Mapping[str, str] = MappingProxyType({"===": "==", "!==": "!="})

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
    tree = _junction(cursor, "||")
    if cursor.peek_is("?"):
        question = cursor.take()
        then = _junction(cursor, "||")
        cursor.expect(":", question)
        tree = Node(question.at, "?", (tree, then, _expression(cursor)))
    cursor.leave()
    return tree


def _junction(cursor: Cursor, sign: str) -> Node:
    at, operands = cursor.token.at, list[Node]()
    while not operands or cursor.skip(sign):
        operands.append(
            _junction(cursor, "&&") if sign == "||" else _binary(cursor, floor=_RELATION)
        )
    return operands[0] if len(operands) == 1 else Node(at, sign, tuple(operands))


def _binary(cursor: Cursor, floor: int) -> Node:
    """Parse left-associative binary operators with a precedence of at least `floor`."""
    left = _unary(cursor)
    while (level := _PRECEDENCE.get(cursor.token.text, 0)) >= floor:
        sign = cursor.take()
        kind = _ADDED_SPELLINGS.get(sign.text, sign.text)
        left = Node(sign.at, kind, (left, _binary(cursor, level + 1)))
    return left


def _unary(cursor: Cursor) -> Node:
    """Parse an operand with any number of `!` or `-` before it. As in CEL, two signs cancel out."""
    at = cursor.token.at
    for sign, kind in (("!", "not"), ("-", "negate")):
        if cursor.peek_is(sign) and not cursor.peek_is_signed_number():
            odd = False
            while cursor.skip(sign):
                odd = not odd
            operand = _member(cursor)
            return Node(at, kind, (operand,)) if odd else operand
    return _member(cursor)


def _member(cursor: Cursor) -> Node:
    node = _primary(cursor)
    while True:
        token = cursor.token
        if cursor.skip("."):
            node = _field(cursor, node)
        elif cursor.skip("["):
            node = Node(token.at, "index", (node, _expression(cursor)))
            cursor.expect("]", token)
        else:
            return node


def _field(cursor: Cursor, operand: Node) -> Node:
    name = cursor.token
    if name.kind != "name":
        raise cursor.unexpected("expected a field name")
    if name.text in _KEYWORDS:
        raise cursor.unexpected(f'write ["{name.text}"] for a field of this name')
    cursor.take()
    if cursor.peek_is("("):
        return _call(name.at, name.text, operand, _arguments(cursor))
    return Node(name.at, "field", (operand,), name.text)


def _primary(cursor: Cursor) -> Node:
    token = cursor.token
    if token.kind == "name":
        return _name(cursor)
    if token.kind == "string":
        return _literal(token.at, read_string(cursor.take().text, token.at))
    if token.kind in {"int", "double"} or cursor.peek_is_signed_number():
        negative = cursor.skip("-")
        return _literal(token.at, read_number(cursor.take(), token.at, negative=negative))
    if cursor.skip("("):
        inner = _expression(cursor)
        cursor.expect(")", token)
        return inner
    if cursor.peek_is("[") or cursor.peek_is("{"):
        return _collection(cursor)
    raise cursor.unexpected("expected a value")


def _literal(at: int, value: Json) -> Node:
    return Node(at, "literal", value=value)


def _name(cursor: Cursor) -> Node:
    name = cursor.token
    if name.text == "in":
        raise cursor.unexpected("expected a value")
    if name.text in _RESERVED:
        raise ConditionError(f"{name} is a reserved word", name.at)
    cursor.take()
    if name.text in _CONSTANTS:
        return _literal(name.at, _CONSTANTS[name.text])
    if cursor.peek_is("("):
        return _call(name.at, name.text, None, _arguments(cursor))
    return Node(name.at, "name", name=name.text)


def _arguments(cursor: Cursor) -> tuple[Node, ...]:
    opened = cursor.take()
    if cursor.skip(")"):
        return ()
    arguments = [_expression(cursor)]
    while cursor.skip(","):
        arguments.append(_expression(cursor))
    cursor.expect(")", opened)
    return tuple(arguments)


def _call(at: int, name: str, receiver: Node | None, arguments: tuple[Node, ...]) -> Node:
    """Return the node for a function call, or the expanded node for the call of a macro."""
    if name == "has":
        if receiver is not None or [argument.kind for argument in arguments] != ["field"]:
            text = "has needs exactly one field as its argument,"
            raise ConditionError(text, at, "write has(result.name)")
        return arguments[0]._replace(at=at, kind="has")
    if name not in MACROS:
        kind, before = ("call", ()) if receiver is None else ("method", (receiver,))
        return Node(at, kind, (*before, *arguments), name)
    if receiver is None or len(arguments) != _MACRO_ARGUMENTS:
        raise ConditionError(
            f"{name} needs a list before it, a variable and an expression,",
            at,
            f"write result.list.{name}(x, x > 0)",
        )
    variable, body = arguments
    if variable.kind != "name":
        raise ConditionError(f"the variable of {name} must be a simple name", variable.at)
    return Node(at, name, (receiver, body), variable.name)


def _collection(cursor: Cursor) -> Node:
    """Parse a list or a map. As in CEL, a trailing comma is accepted."""
    opened = cursor.take()
    kind, closing = ("map", "}") if opened.text == "{" else ("list", "]")
    keys: list[str] = []
    items: list[Node] = []
    if not cursor.skip(","):
        while not cursor.peek_is(closing):
            if kind == "map":
                keys.append(_key(cursor, keys))
            items.append(_expression(cursor))
            if not cursor.skip(","):
                break
    cursor.expect(closing, opened)
    return Node(opened.at, kind, tuple(items), value=tuple(keys))


def _key(cursor: Cursor, taken: list[str]) -> str:
    token = cursor.token
    if token.kind != "string":
        raise cursor.unexpected("the keys of a map are string literals, as in JSON")
    key = read_string(cursor.take().text, token.at)
    if key in taken:
        raise ConditionError(f"the map has the key {token} twice", token.at)
    cursor.expect(":")
    return key
