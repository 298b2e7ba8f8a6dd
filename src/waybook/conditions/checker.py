"""Checks the nesting depth of a condition, and the variables and functions that it uses."""

from waybook.conditions.functions import SIGNATURES, Signature
from waybook.conditions.syntax import Call, Macro, Name, Node, children, walk
from waybook.conditions.values import ConditionError

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
            _check_call(node)
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


def _check_call(node: Call) -> None:
    signature = SIGNATURES.get(node.function)
    if signature is None:
        raise _unknown_function(node)
    if node.receiver is None and not signature.bare:
        raise ConditionError(f"{node.function} is a method,", node.at, f"write {signature.example}")
    _check_arity(node, signature)


def _check_arity(node: Call, signature: Signature) -> None:
    expected = signature.arguments + (node.receiver is None)
    if len(node.arguments) != expected:
        text = f"{node.function} takes {expected} here, but {len(node.arguments)} are given,"
        raise ConditionError(text, node.at, f"write {signature.example}")


def _unknown_function(node: Call) -> ConditionError:
    text = f"unknown function '{node.function}'"
    if suggestion := _SUGGESTED_FUNCTION.get(node.function):
        return ConditionError(text, node.at, f"did you mean {suggestion}?", hint=suggestion)
    functions = ", ".join(SIGNATURES)
    return ConditionError(
        text, node.at, f"there are {functions}, has, and the macros exists, all, filter"
    )
