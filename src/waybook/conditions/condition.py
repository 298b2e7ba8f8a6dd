"""Branch conditions: compiled when a plan is written, evaluated when a step completes.

The language is a subset of CEL (Common Expression Language) over JSON values. Types are checked
only during evaluation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from waybook.conditions.evaluator import Program, program
from waybook.conditions.parser import MACROS, Node, parse, walk
from waybook.conditions.values import TEXT_TESTS, Budget, BudgetExceeded, ConditionError, Json, kind
from waybook.errors import BadExpression

VARIABLES = ("result", "confidence", "report", "step", "plan")

#: Maximum depth of the expression tree. A chain of `&&` or `||` counts as one level.
MAX_TREE_DEPTH = 64

#: An example of each function. Only `size` can be called without a receiver.
_EXAMPLES = {
    "size": "size(result.list)",
    **{name: f'result.text.{name}("part")' for name in TEXT_TESTS},
}

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


def _check(tree: Node) -> None:
    """Reject a syntax tree that is too deep or uses an unknown name."""
    for node, depth in walk(tree):
        if depth > MAX_TREE_DEPTH:
            text = f"the expression is more than {MAX_TREE_DEPTH} operations deep"
            raise ConditionError(text, node.at, "split the condition")
    _check_names(tree, frozenset(VARIABLES))


def _check_names(node: Node, known: frozenset[str]) -> None:
    if node.kind == "name" and node.name not in known:
        raise _unknown_name(node)
    if node.kind in {"call", "method"}:
        _check_call(node)
    in_macro = node.kind in MACROS
    for place, part in enumerate(node.parts):
        _check_names(part, known | {node.name} if in_macro and place else known)


def _unknown_name(node: Node) -> ConditionError:
    hint, names = f"result.{node.name}", ", ".join(VARIABLES)
    advice = f'did you mean {hint}, or the string "{node.name}"? The names are {names}'
    if suggestion := _SUGGESTED_CONSTANT.get(node.name):
        hint, advice = suggestion, f"did you mean {suggestion}?"
    return ConditionError(f"unknown name '{node.name}'", node.at, advice, hint=hint)


def _check_call(node: Node) -> None:
    name, is_bare = node.name, node.kind == "call"
    if name not in _EXAMPLES:
        suggestion = _SUGGESTED_FUNCTION.get(name)
        functions = ", ".join(_EXAMPLES)
        advice = f"there are {functions}, has, and the macros exists, all, filter"
        raise ConditionError(
            f"unknown function '{name}'",
            node.at,
            f"did you mean {suggestion}?" if suggestion else advice,
            hint=suggestion,
        )
    example = f"write {_EXAMPLES[name]}"
    if is_bare and name != "size":
        raise ConditionError(f"{name} must be called as a method,", node.at, example)
    expected = int(is_bare or name != "size")
    given = len(node.parts) if is_bare else len(node.parts) - 1
    if given != expected:
        text = f"the number of arguments of {name} must be {expected}, not {given},"
        raise ConditionError(text, node.at, example)


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
        value: Json = False
        error: str | None = None
        try:
            value = self.program(values, budget)
        except (ConditionError, BudgetExceeded) as fault:
            fault.__traceback__ = None
            error = str(fault)
        if type(value) is not bool:
            error = f"the condition is of type {kind(value)}, neither true nor false"
        return Outcome(fired=value is True, error=error, cost=budget.spent)


def compile_condition(source: str) -> Condition:
    """Compile a condition. All errors in its text are raised here, not during evaluation.

    Raises:
        BadExpression: the text does not compile; the error's details contain `position`, `source`
            and, if available, `hint`.
    """
    try:
        _check_text(source)
        tree = parse(source)
        _check(tree)
    except ConditionError as error:
        refusal = BadExpression(str(error), position=error.at, source=source[:MAX_SOURCE_LENGTH])
        if error.hint is not None:
            refusal.details["hint"] = error.hint
        raise refusal from None
    return Condition(source=source, tree=tree, program=program(tree))


def _check_text(source: str) -> None:
    if len(source) > MAX_SOURCE_LENGTH:
        text = f"the condition has {len(source)} characters, {MAX_SOURCE_LENGTH} are allowed,"
        raise ConditionError(text, MAX_SOURCE_LENGTH, "shorten it")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise ConditionError("half a surrogate pair is no character", error.start) from None
