"""Functions and macros of the condition language.

`&&`, `||`, `exists` and `all` ignore an error in one operand if another operand decides the result.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from waybook.conditions.budget import ABSORBED_ERROR, TEXT_PER_UNIT, Budget, Frame, Run
from waybook.conditions.syntax import Macro, MacroName
from waybook.conditions.values import SCALAR_TYPES, ConditionError, Json, kind, to_cel_value

TextTest: TypeAlias = Callable[[str, str, int, Budget], bool]

#: For longer texts, Python's substring search always takes linear time.
_LINEAR_SEARCH = 30_000
_COMPARISONS_PER_UNIT = 256


@dataclass(frozen=True, slots=True)
class Signature:
    arguments: int
    bare: bool
    example: str


# fmt: off
SIGNATURES: Mapping[str, Signature] = MappingProxyType({
    "size":       Signature(0, bare=True,  example="size(result.list)"),
    "contains":   Signature(1, bare=False, example='result.text.contains("part")'),
    "startsWith": Signature(1, bare=False, example='result.text.startsWith("part")'),
    "endsWith":   Signature(1, bare=False, example='result.text.endsWith("part")'),
})


# fmt: on


def size(value: Json, at: int) -> int:
    if type(value) is str or type(value) is list or type(value) is dict:
        return len(value)
    raise ConditionError(f"size needs a string, list or map, found {kind(value)},", at)


def contains(text: str, part: str, at: int, budget: Budget) -> bool:
    if len(text) < _LINEAR_SEARCH:
        budget.spend(len(text) * len(part) // _COMPARISONS_PER_UNIT, at)
    else:
        budget.spend((len(text) + len(part)) // TEXT_PER_UNIT, at)
    return part in text


def starts_with(text: str, part: str, at: int, budget: Budget) -> bool:
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.startswith(part)


def ends_with(text: str, part: str, at: int, budget: Budget) -> bool:
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.endswith(part)


TEXT_TESTS: Mapping[str, TextTest] = MappingProxyType(
    {"contains": contains, "startsWith": starts_with, "endsWith": ends_with}
)


def junction(sign: str, operands: tuple[tuple[int, Run], ...], *, settles: bool) -> Run:
    """Return a function that evaluates a chain of `&&` or of `||`."""

    def run(frame: Frame) -> Json:
        error: ConditionError | None = None
        for at, operand in operands:
            try:
                verdict = operand(frame)
            except ConditionError as caught:
                error = _first(error, caught, at, frame)
                continue
            if verdict is settles:
                return settles
            if type(verdict) is not bool:
                error = _first(error, _no_bool(sign, verdict, at), at, frame)
        if error is not None:
            raise error
        return not settles

    return run


def quantifier(node: Macro, source: Run, body: Run, *, slot: int, cost: int) -> Run:
    """Return a function that evaluates `exists` or `all`."""
    settles = node.macro is MacroName.EXISTS
    at = node.body.at

    def run(frame: Frame) -> Json:
        error: ConditionError | None = None
        for item in _elements(node, source(frame)):
            frame.budget.spend(cost, node.at)
            frame.bound[slot] = item if type(item) in SCALAR_TYPES else to_cel_value(item, node.at)
            try:
                verdict = body(frame)
            except ConditionError as caught:
                error = _first(error, caught, at, frame)
                continue
            if verdict is settles:
                return settles
            if type(verdict) is not bool:
                error = _first(error, _no_bool(node.macro, verdict, at), at, frame)
        if error is not None:
            raise error
        return not settles

    return run


def selection(node: Macro, source: Run, body: Run, *, slot: int, cost: int) -> Run:
    """Return a function that evaluates `filter`."""

    def run(frame: Frame) -> Json:
        selected: list[Json] = []
        for item in _elements(node, source(frame)):
            frame.budget.spend(cost, node.at)
            frame.bound[slot] = item if type(item) in SCALAR_TYPES else to_cel_value(item, node.at)
            verdict = body(frame)
            if verdict is True:
                selected.append(item)
            elif verdict is not False:
                raise _no_bool(node.macro, verdict, node.body.at)
        return selected

    return run


def conditional(at: int, condition: Run, then: Run, otherwise: Run) -> Run:
    """Return a function that evaluates `condition ? then : otherwise`."""

    def run(frame: Frame) -> Json:
        verdict = condition(frame)
        if verdict is True:
            return then(frame)
        if verdict is False:
            return otherwise(frame)
        raise _no_bool("?", verdict, at)

    return run


def negation(at: int, operand: Run) -> Run:
    def run(frame: Frame) -> Json:
        verdict = operand(frame)
        if type(verdict) is bool:
            return not verdict
        raise _no_bool("!", verdict, at)

    return run


def _elements(node: Macro, group: Json) -> Iterable[Json]:
    if type(group) is list or type(group) is dict:
        return group
    raise ConditionError(f"{node.macro} needs a list or a map, found {kind(group)},", node.at)


def _first(
    known: ConditionError | None, new: ConditionError, at: int, frame: Frame
) -> ConditionError:
    frame.budget.spend(ABSORBED_ERROR, at)
    new.__traceback__ = None
    return known or new


def _no_bool(sign: str, value: Json, at: int) -> ConditionError:
    return ConditionError(f"{sign} needs true or false, found {kind(value)},", at)
