"""Equality, order and membership, as CEL has them over JSON values.

Anything may be compared with `==`: values of different kinds are unequal, except that an `int` and
a `double` are compared as doubles. Order is for two numbers, two strings or two bools.
"""

import operator
from collections.abc import Callable
from typing import TypeAlias

from waybook.conditions.budget import COMPARED_ITEM, COMPARED_PAIR, TEXT_PER_UNIT, Budget
from waybook.conditions.faults import ConditionError
from waybook.conditions.values import SCALAR_TYPES, Json, kind, to_cel_value

Comparison: TypeAlias = Callable[[Json, Json, int, Budget], bool]

Ordered: TypeAlias = bool | int | float | str
Pairs: TypeAlias = list[tuple[Json, Json]]

_ORDERED = (bool, int, float, str)


def equal(left: Json, right: Json, at: int, budget: Budget) -> bool:
    """Say whether two admitted values are equal."""
    if type(left) is list or type(left) is dict:
        return type(left) is type(right) and _same(left, right, at, budget)
    return _same_scalar(left, right, at, budget)


def unequal(left: Json, right: Json, at: int, budget: Budget) -> bool:
    """Say whether two admitted values differ."""
    return not equal(left, right, at, budget)


def member(item: Json, group: Json, at: int, budget: Budget) -> bool:
    """Say whether a list has this element, or a map this key."""
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
    """Compare without recursion: what agents submit may be deeper than Python's stack."""
    waiting = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        one = one if type(one) in SCALAR_TYPES else to_cel_value(one, at)
        other = other if type(other) in SCALAR_TYPES else to_cel_value(other, at)
        if type(one) is list and type(other) is list:
            pairs = _list_pairs(one, other, at, budget)
        elif type(one) is dict and type(other) is dict:
            pairs = _map_pairs(one, other, at, budget)
        else:
            pairs = [] if _same_scalar(one, other, at, budget) else None
        if pairs is None:
            return False
        waiting.extend(pairs)
    return True


def _list_pairs(one: list[Json], other: list[Json], at: int, budget: Budget) -> Pairs | None:
    """The elements to compare, or None if the lists differ already."""
    if len(one) != len(other):
        return None
    budget.spend(COMPARED_PAIR * (1 + len(one)), at)
    return list(zip(one, other, strict=True))


def _map_pairs(
    one: dict[str, Json], other: dict[str, Json], at: int, budget: Budget
) -> Pairs | None:
    """The values to compare, or None if the maps differ already."""
    if len(one) != len(other):
        return None
    budget.spend(COMPARED_PAIR, at)
    pairs: Pairs = []
    for key, value in one.items():
        budget.spend(COMPARED_PAIR + len(key) // TEXT_PER_UNIT, at)
        if key not in other:
            return None
        pairs.append((value, other[key]))
    return pairs


def _ordering(sign: str, holds: Callable[[Ordered, Ordered], bool]) -> Comparison:
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
