"""Calls that are no functions: `has`, `exists`, `all` and `filter` take their arguments unread.

CEL expands them while it parses, and so do we.
"""

from waybook.conditions.faults import ConditionError
from waybook.conditions.syntax import Call, Has, Macro, MacroName, Name, Node, Select

_LOOPS = frozenset(MacroName)
_LOOP_ARGUMENTS = 2


def expand(at: int, name: str, receiver: Node | None, arguments: tuple[Node, ...]) -> Node:
    """The node a call stands for.

    Raises:
        Fault: a macro is called in a form it does not have.
    """
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
