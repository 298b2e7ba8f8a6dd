"""The operators `+ - * / %` and the minus sign, on CEL's numbers, texts and lists.

Integers have 64 bits and an overflow is an error; doubles follow IEEE 754, zero divisors included.
An `int` and a `double` do not mix.
"""

from math import copysign, inf, isnan, nan

from waybook.conditions.budget import ITEMS_PER_UNIT, TEXT_PER_UNIT, Budget
from waybook.conditions.faults import ConditionError
from waybook.conditions.values import INT_MAX, INT_MIN, Json, kind


def add(left: Json, right: Json, at: int, budget: Budget) -> Json:
    """Add numbers, or put texts or lists one after the other."""
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
    """Subtract numbers."""
    if type(left) is int and type(right) is int:
        return _within(left - right, at)
    if type(left) is float and type(right) is float:
        return left - right
    raise _mismatch("-", left, right, at)


def multiply(left: Json, right: Json, at: int, _: Budget) -> Json:
    """Multiply numbers."""
    if type(left) is int and type(right) is int:
        return _within(left * right, at)
    if type(left) is float and type(right) is float:
        return left * right
    raise _mismatch("*", left, right, at)


def divide(left: Json, right: Json, at: int, _: Budget) -> Json:
    """Divide numbers; integers are cut towards zero."""
    if type(left) is int and type(right) is int:
        if right == 0:
            raise ConditionError("division by zero", at)
        return _within(_cut_quotient(left, right), at)
    if type(left) is float and type(right) is float:
        return left / right if right else _over_zero(left, right)
    raise _mismatch("/", left, right, at)


def modulo(left: Json, right: Json, at: int, _: Budget) -> Json:
    """The rest of an integer division, with the sign of the dividend."""
    if type(left) is int and type(right) is int:
        if right == 0:
            raise ConditionError("modulus by zero", at)
        return left - right * _within(_cut_quotient(left, right), at)
    raise _mismatch("%", left, right, at)


def negate(value: Json, at: int) -> Json:
    """The number with the other sign."""
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
    """The quotient without its fraction: Python rounds down, CEL towards zero.

    >>> _cut_quotient(-5, 3), -5 // 3
    (-1, -2)
    """
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _over_zero(left: float, zero: float) -> float:
    """Divide by zero as IEEE 754 does.

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
