"""Operators, functions and macros of conditions."""

import operator
from collections.abc import Callable, Iterable, Mapping
from math import copysign, inf, isnan, nan
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waybook.conditions.parser import Macro, MacroName
from waybook.conditions.values import (
    ABSORBED_ERROR,
    COMPARED_ITEM,
    COMPARED_PAIR,
    INT_MAX,
    INT_MIN,
    ITEMS_PER_UNIT,
    SCALAR_TYPES,
    TEXT_PER_UNIT,
    Budget,
    ConditionError,
    Frame,
    Json,
    Run,
    kind,
    quoted,
    to_cel_value,
)

_TextTest: TypeAlias = Callable[[str, str, int, Budget], bool]

#: Length of texts above which Python's substring search always takes linear time.
_LINEAR_SEARCH = 30_000
_COMPARISONS_PER_UNIT = 256


class Signature(NamedTuple):
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


def _starts_with(text: str, part: str, at: int, budget: Budget) -> bool:
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.startswith(part)


def _ends_with(text: str, part: str, at: int, budget: Budget) -> bool:
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.endswith(part)


TEXT_TESTS: Mapping[str, _TextTest] = MappingProxyType(
    {"contains": contains, "startsWith": _starts_with, "endsWith": _ends_with}
)


def junction(sign: str, operands: tuple[tuple[int, Run], ...], *, settles: bool) -> Run:
    """Return a function that evaluates a chain of `&&` or `||`.

    The first operand that equals `settles` decides the result.
    """

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


def add(left: Json, right: Json, at: int, budget: Budget) -> Json:
    if type(left) is int and type(right) is int:
        return _within(left + right, at)
    if type(left) is float and type(right) is float:
        return left + right
    if type(left) is str and type(right) is str:
        budget.spend((len(left) + len(right)) // TEXT_PER_UNIT, at)
        return left + right
    if type(left) is list and type(right) is list:
        budget.spend((len(left) + len(right)) // ITEMS_PER_UNIT, at)
        return left + right
    raise _mismatch("+", left, right, at)


def subtract(left: Json, right: Json, at: int, _: Budget) -> Json:
    if type(left) is int and type(right) is int:
        return _within(left - right, at)
    if type(left) is float and type(right) is float:
        return left - right
    raise _mismatch("-", left, right, at)


def multiply(left: Json, right: Json, at: int, _: Budget) -> Json:
    if type(left) is int and type(right) is int:
        return _within(left * right, at)
    if type(left) is float and type(right) is float:
        return left * right
    raise _mismatch("*", left, right, at)


def divide(left: Json, right: Json, at: int, _: Budget) -> Json:
    if type(left) is int and type(right) is int:
        if right == 0:
            raise ConditionError("division by zero", at)
        return _within(_cut_quotient(left, right), at)
    if type(left) is float and type(right) is float:
        return left / right if right else _over_zero(left, right)
    raise _mismatch("/", left, right, at)


def modulo(left: Json, right: Json, at: int, _: Budget) -> Json:
    """Return the remainder of an integer division, with the sign of the dividend."""
    if type(left) is int and type(right) is int:
        if right == 0:
            raise ConditionError("modulus by zero", at)
        return left - right * _within(_cut_quotient(left, right), at)
    raise _mismatch("%", left, right, at)


def negate(value: Json, at: int) -> Json:
    if type(value) is int:
        return _within(-value, at)
    if type(value) is float:
        return -value
    raise ConditionError(f"- needs a number, found {kind(value)},", at)


def _within(value: int, at: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ConditionError("integer overflow", at)


def _cut_quotient(left: int, right: int) -> int:
    """Return the integer quotient truncated toward zero, as in CEL. Python's `//` rounds down.

    >>> _cut_quotient(-5, 3), -5 // 3
    (-1, -2)
    """
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _over_zero(left: float, zero: float) -> float:
    """Return the result of dividing a double by zero, as in IEEE 754.

    >>> _over_zero(1.0, -0.0), _over_zero(0.0, 0.0)
    (-inf, nan)
    """
    if left == 0 or isnan(left):
        return nan
    return copysign(inf, left) * copysign(1.0, zero)


def _mismatch(sign: str, left: Json, right: Json, at: int) -> ConditionError:
    kinds = (kind(left), kind(right))
    mixed = sign != "%" and set(kinds) == {"int", "double"}
    advice = "ints and doubles do not mix, write whole doubles as 1.0" if mixed else ""
    return ConditionError(f"cannot compute {kinds[0]} {sign} {kinds[1]}", at, advice)


Comparison: TypeAlias = Callable[[Json, Json, int, Budget], bool]

_Ordered: TypeAlias = bool | int | float | str
Pairs: TypeAlias = list[tuple[Json, Json]]

_ORDERED = (bool, int, float, str)


def equal(left: Json, right: Json, at: int, budget: Budget) -> bool:
    if type(left) is list or type(left) is dict:
        return type(left) is type(right) and _same(left, right, at, budget)
    return _same_scalar(left, right, at, budget)


def unequal(left: Json, right: Json, at: int, budget: Budget) -> bool:
    return not equal(left, right, at, budget)


def member(item: Json, group: Json, at: int, budget: Budget) -> bool:
    if type(group) is list:
        return _among(item, group, at, budget)
    if type(group) is not dict:
        raise ConditionError(f"in needs a list or a map on its right, found {kind(group)},", at)
    if type(item) is str:
        budget.spend(len(item) // TEXT_PER_UNIT, at)
        return item in group
    if isinstance(item, _ORDERED):
        return False
    raise ConditionError(f"{kind(item)} cannot be the key of a map,", at)


def _among(item: Json, group: list[Json], at: int, budget: Budget) -> bool:
    for other in group:
        budget.spend(COMPARED_ITEM, at)
        if equal(
            item, other if type(other) in SCALAR_TYPES else to_cel_value(other, at), at, budget
        ):
            return True
    return False


def _same_scalar(left: Json, right: Json, at: int, budget: Budget) -> bool:
    if type(left) is type(right):
        if type(left) is str and type(right) is str and len(left) == len(right):
            budget.spend(len(left) // TEXT_PER_UNIT, at)
        return left == right
    if type(left) is int and type(right) is float:
        return float(left) == right
    if type(left) is float and type(right) is int:
        return left == float(right)
    return False


def _same(left: Json, right: Json, at: int, budget: Budget) -> bool:
    """Compare two values without recursion, because they may be nested deeply."""
    waiting = [(left, right)]
    while waiting:
        first, other = waiting.pop()
        first = first if type(first) in SCALAR_TYPES else to_cel_value(first, at)
        other = other if type(other) in SCALAR_TYPES else to_cel_value(other, at)
        if type(first) is list and type(other) is list:
            pairs = _list_pairs(first, other, at, budget)
        elif type(first) is dict and type(other) is dict:
            pairs = _map_pairs(first, other, at, budget)
        else:
            pairs = [] if _same_scalar(first, other, at, budget) else None
        if pairs is None:
            return False
        waiting.extend(pairs)
    return True


def _list_pairs(first: list[Json], other: list[Json], at: int, budget: Budget) -> Pairs | None:
    if len(first) != len(other):
        return None
    budget.spend(COMPARED_PAIR * (1 + len(first)), at)
    return list(zip(first, other, strict=True))


def _map_pairs(
    first: dict[str, Json], other: dict[str, Json], at: int, budget: Budget
) -> Pairs | None:
    """Return the pairs of values with the same key, or None if the keys of the two maps differ."""
    if len(first) != len(other):
        return None
    budget.spend(COMPARED_PAIR, at)
    pairs: Pairs = []
    for key, value in first.items():
        budget.spend(COMPARED_PAIR + len(key) // TEXT_PER_UNIT, at)
        if key not in other:
            return None
        pairs.append((value, other[key]))
    return pairs


def _ordering(sign: str, holds: Callable[[_Ordered, _Ordered], bool]) -> Comparison:
    def compare(left: Json, right: Json, at: int, budget: Budget) -> bool:
        if type(left) is type(right) and isinstance(left, _ORDERED) and isinstance(right, _ORDERED):
            if type(left) is str and type(right) is str:
                budget.spend(min(len(left), len(right)) // TEXT_PER_UNIT, at)
            return holds(left, right)
        if type(left) is int and type(right) is float:
            return holds(float(left), right)
        if type(left) is float and type(right) is int:
            return holds(left, float(right))
        raise ConditionError(f"cannot compare {kind(left)} {sign} {kind(right)}", at)

    return compare


less = _ordering("<", operator.lt)
at_most = _ordering("<=", operator.le)
greater = _ordering(">", operator.gt)
at_least = _ordering(">=", operator.ge)


def select(value: Json, field: str, at: int) -> Json:
    if type(value) is dict:
        if field not in value:
            raise ConditionError(f"no field {quoted(field)}", at, "test it with has() first")
        field_value = value[field]
        return field_value if type(field_value) in SCALAR_TYPES else to_cel_value(field_value, at)
    raise ConditionError(f"cannot read field {quoted(field)} of a value of type {kind(value)}", at)


def has(value: Json, field: str, at: int) -> bool:
    """Return whether a map has the field. As in CEL, raise an error for other types."""
    if type(value) is dict:
        return field in value
    raise ConditionError(
        f"cannot look for field {quoted(field)} in a value of type {kind(value)}", at
    )


def index(value: Json, key: Json, at: int, budget: Budget) -> Json:
    if type(value) is list:
        element = value[_place(key, len(value), at)]
        return element if type(element) in SCALAR_TYPES else to_cel_value(element, at)
    if type(value) is not dict:
        raise ConditionError(f"cannot index a value of type {kind(value)}", at)
    if type(key) is not str:
        raise ConditionError(f"no key of type {kind(key)} in this map, its keys are strings,", at)
    budget.spend(len(key) // TEXT_PER_UNIT, at)
    return select(value, key, at)


def _place(key: Json, length: int, at: int) -> int:
    """Check a list index and return it as an integer. As in CEL, `1.0` is accepted too."""
    if type(key) is float and key.is_integer():
        place = int(key)
    elif type(key) is int:
        place = key
    else:
        raise ConditionError(f"the index of a list must be an int, found {kind(key)},", at)
    if 0 <= place < length:
        return place
    raise ConditionError(f"no element {key} in a list of {length}", at)
