"""Converts JSON values to CEL values, and defines the errors and operators of an evaluation.

========================  ======================================================
JSON                      CEL
========================  ======================================================
integer                   ``int`` if it fits in 64 bits, else ``double``
fraction or exponent      ``double`` (``1.0`` stays a ``double``)
string, true, false, null ``string``, ``bool``, ``null``
array, object             ``list``, ``map`` (keys are strings)
========================  ======================================================

Values are converted when they are accessed, never copied beforehand. An array must be a `list` and
an object a `dict`, as `json.loads` creates them; any other sequence or mapping raises an error.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import copysign, inf, isnan, nan
from types import MappingProxyType, NoneType
from typing import Any, TypeAlias


class ConditionError(Exception):
    """An error in a condition. During evaluation, `&&` and `||` may ignore it.

    >>> str(ConditionError("unknown name 'score'", 0, "did you mean result.score?"))
    "unknown name 'score' at position 0; did you mean result.score?"
    """

    def __init__(self, text: str, at: int, advice: str = "", *, hint: str | None = None) -> None:
        self.text = text
        self.at = at
        self.advice = advice
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.text} at position {self.at}"
        return f"{place}; {self.advice}" if self.advice else place


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

#: Types of values that need no conversion. `int` is not one of them, because a Python integer may
#: exceed the range of a CEL integer.
SCALAR_TYPES = frozenset({NoneType, bool, float, str, list, dict})

_KINDS: Mapping[type, str] = {
    NoneType: "null",
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
}

_MAX_QUOTE_LENGTH = 40


def to_cel_value(value: Json, at: int) -> Json:
    """Convert one JSON value to a CEL value. Nested values are converted when accessed.

    >>> to_cel_value("text", 0), to_cel_value(7, 0), to_cel_value(2**64, 0)
    ('text', 7, 1.8446744073709552e+19)
    >>> to_cel_value(2**1024 - 1, 0), to_cel_value(-(10**400), 0)
    (inf, -inf)

    Raises:
        ConditionError: the value is not a JSON value.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if isinstance(value, int):
        if INT_MIN <= value <= INT_MAX:
            return int(value)
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value)
    raise ConditionError(f"found a {type(value).__name__}, which is no JSON value,", at)


def kind(value: Json) -> str:
    return _KINDS[type(value)]


def quoted(text: str) -> str:
    """Return the text in quotes, cut to a readable length.

    >>> quoted("score"), quoted("x" * 1000)
    ("'score'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'")
    """
    return repr(text if len(text) <= _MAX_QUOTE_LENGTH else text[:_MAX_QUOTE_LENGTH] + "…")


BUDGET = 100_000
#: Part of a `SharedBudget` that is reserved for each condition that was not evaluated yet.
RESERVED_PER_CONDITION = 1_000

TEXT_PER_UNIT = 64
ITEMS_PER_UNIT = 8
ABSORBED_ERROR = 10
COMPARED_PAIR = 4
COMPARED_ITEM = 3


class BudgetExceeded(Exception):
    """The budget is exhausted. Unlike other errors, this error always ends the evaluation."""

    def __init__(self, at: int, limit: int = BUDGET) -> None:
        self.at = at
        self.limit = limit

    def __str__(self) -> str:
        shared = f" (of {BUDGET} for all conditions of the step)" if self.limit < BUDGET else ""
        return (
            f"too expensive: over the budget of {self.limit} operations{shared} at position "
            f"{self.at}; look at fewer elements or shorter texts"
        )


class Budget:
    """Limit on the operations for evaluating one condition, and the operations done so far.

    >>> budget = Budget()
    >>> budget.spend(10, at=0)
    >>> budget.spent
    10
    """

    __slots__ = ("left", "limit")

    def __init__(self, limit: int = BUDGET) -> None:
        self.limit = limit
        self.left = limit

    @property
    def spent(self) -> int:
        return self.limit - self.left

    def spend(self, cost: int, at: int) -> None:
        """Charge the cost of an operation. Call this before the operation runs."""
        if cost > self.left:
            self.left = 0
            raise BudgetExceeded(at, self.limit)
        self.left -= cost


class SharedBudget:
    """A budget for all conditions that one tool call evaluates.

    A part is reserved for each later condition, so that an expensive condition does not prevent
    cheap ones from being evaluated.

    >>> shared = SharedBudget(conditions=2)
    >>> first = shared.next_budget()
    >>> first.limit
    99000
    >>> first.spend(90_000, at=0)
    >>> shared.next_budget().limit
    10000
    """

    def __init__(self, conditions: int) -> None:
        self._waiting = conditions
        self._left = BUDGET
        self._current: Budget | None = None

    def next_budget(self) -> Budget:
        if self._current is not None:
            self._left -= self._current.spent
        self._waiting -= 1
        reserve = RESERVED_PER_CONDITION * self._waiting
        self._current = Budget(max(self._left - reserve, RESERVED_PER_CONDITION))
        return self._current


_Unary: TypeAlias = Callable[[Json, str, int], Json]
_Binary: TypeAlias = Callable[[Json, Json, int, Budget], Json]

#: Length of texts above which Python's substring search always takes linear time.
_LINEAR_SEARCH = 30_000
_COMPARISONS_PER_UNIT = 256

_ORDERED = (bool, int, float, str)


def _text_test(
    name: str, holds: Callable[[str, str], bool], text: Json, part: Json, at: int, budget: Budget
) -> bool:
    if type(text) is not str or type(part) is not str:
        kinds = f"but found {kind(text)} and {kind(part)},"
        raise ConditionError(f"{name} needs two strings, {kinds}", at)
    if name != "contains":
        budget.spend(len(part) // TEXT_PER_UNIT, at)
    elif len(text) < _LINEAR_SEARCH:
        budget.spend(len(text) * len(part) // _COMPARISONS_PER_UNIT, at)
    else:
        budget.spend((len(text) + len(part)) // TEXT_PER_UNIT, at)
    return holds(text, part)


def _arithmetic(
    sign: str,
    on_ints: Callable[[int, int], int],
    on_doubles: Callable[[float, float], float] | None,
    left: Json,
    right: Json,
    at: int,
    budget: Budget,
) -> Json:
    if type(left) is int and type(right) is int:
        try:
            return _within(on_ints(left, right), at)
        except ZeroDivisionError:
            text = f"{'modulus' if sign == '%' else 'division'} by zero"
            raise ConditionError(text, at) from None
    if type(left) is float and type(right) is float and on_doubles:
        return on_doubles(left, right)
    if sign == "+" and type(left) is str and type(right) is str:
        budget.spend((len(left) + len(right)) // TEXT_PER_UNIT, at)
        return left + right
    if sign == "+" and type(left) is list and type(right) is list:
        budget.spend((len(left) + len(right)) // ITEMS_PER_UNIT, at)
        return left + right
    kinds = (kind(left), kind(right))
    mixed = sign != "%" and set(kinds) == {"int", "double"}
    advice = "ints and doubles do not mix, write whole doubles as 1.0" if mixed else ""
    raise ConditionError(f"cannot compute {kinds[0]} {sign} {kinds[1]}", at, advice)


def _quotient(left: int, right: int) -> int:
    """Return the integer quotient truncated toward zero, as in CEL. Python's `//` rounds down.

    >>> _quotient(-5, 3), -5 // 3
    (-1, -2)
    """
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend. It overflows if the quotient does."""
    quotient = _quotient(left, right)
    return left - right * quotient if quotient <= INT_MAX else quotient


def _double_quotient(left: float, right: float) -> float:
    """Return the quotient of two doubles, also for a zero divisor, as in IEEE 754.

    >>> _double_quotient(1.0, -0.0), _double_quotient(0.0, 0.0)
    (-inf, nan)
    """
    if right:
        return left / right
    return nan if left == 0 or isnan(left) else copysign(inf, left) * copysign(1.0, right)


def _within(value: int, at: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ConditionError("integer overflow", at)


def _equal(left: Json, right: Json, at: int, budget: Budget) -> bool:
    """Compare two values without recursion, because they may be nested deeply."""
    if type(left) is not list and type(left) is not dict:
        return _same_scalar(left, right, at, budget)
    waiting: list[tuple[Json, Json]] = [(left, right)]
    while waiting:
        first, other = waiting.pop()
        first = first if type(first) in SCALAR_TYPES else to_cel_value(first, at)
        other = other if type(other) in SCALAR_TYPES else to_cel_value(other, at)
        if type(first) is list and type(other) is list:
            if len(first) != len(other):
                return False
            budget.spend(COMPARED_PAIR * (1 + len(first)), at)
            waiting.extend(zip(first, other, strict=True))
        elif type(first) is dict and type(other) is dict:
            if len(first) != len(other):
                return False
            budget.spend(COMPARED_PAIR, at)
            for key, value in first.items():
                budget.spend(COMPARED_PAIR + len(key) // TEXT_PER_UNIT, at)
                if key not in other:
                    return False
                waiting.append((value, other[key]))
        elif not _same_scalar(first, other, at, budget):
            return False
    return True


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


def _member(item: Json, group: Json, at: int, budget: Budget) -> bool:
    if type(group) is list:
        for other in group:
            budget.spend(COMPARED_ITEM, at)
            value = other if type(other) in SCALAR_TYPES else to_cel_value(other, at)
            if _equal(item, value, at, budget):
                return True
        return False
    if type(group) is not dict:
        raise ConditionError(f"in needs a list or a map on its right, but found {kind(group)},", at)
    if type(item) is str:
        budget.spend(len(item) // TEXT_PER_UNIT, at)
        return item in group
    if isinstance(item, _ORDERED):
        return False
    raise ConditionError(f"{kind(item)} cannot be the key of a map,", at)


def _ordering(
    sign: str, holds: Callable[[Any, Any], bool], left: Json, right: Json, at: int, budget: Budget
) -> bool:
    if type(left) is type(right) and isinstance(left, _ORDERED):
        if type(left) is str and type(right) is str:
            budget.spend(min(len(left), len(right)) // TEXT_PER_UNIT, at)
        return holds(left, right)
    if type(left) is int and type(right) is float:
        return holds(float(left), right)
    if type(left) is float and type(right) is int:
        return holds(left, float(right))
    raise ConditionError(f"cannot compare {kind(left)} {sign} {kind(right)}", at)


def truth(value: Json, sign: str, at: int) -> bool:
    if type(value) is bool:
        return value
    raise ConditionError(f"{sign} needs true or false, but found {kind(value)},", at)


def _negate(value: Json, _: str, at: int) -> Json:
    if type(value) is int:
        return _within(-value, at)
    if type(value) is float:
        return -value
    raise ConditionError(f"- needs a number, but found {kind(value)},", at)


def _size(value: Json, _: str, at: int) -> int:
    if type(value) is str or type(value) is list or type(value) is dict:
        return len(value)
    raise ConditionError(f"size needs a string, list or map, but found {kind(value)},", at)


def _select(value: Json, field: str, at: int) -> Json:
    if type(value) is dict:
        if field not in value:
            raise ConditionError(f"no field {quoted(field)}", at, "test it with has() first")
        field_value = value[field]
        return field_value if type(field_value) in SCALAR_TYPES else to_cel_value(field_value, at)
    raise ConditionError(f"cannot read field {quoted(field)} of a value of type {kind(value)}", at)


def _has(value: Json, field: str, at: int) -> bool:
    """Return whether a map has the field. As in CEL, raise an error for other types."""
    if type(value) is dict:
        return field in value
    raise ConditionError(
        f"cannot look for field {quoted(field)} in a value of type {kind(value)}", at
    )


def _index(value: Json, key: Json, at: int, budget: Budget) -> Json:
    if type(value) is dict:
        if type(key) is not str:
            text = f"no key of type {kind(key)} in this map, its keys are strings,"
            raise ConditionError(text, at)
        budget.spend(len(key) // TEXT_PER_UNIT, at)
        return _select(value, key, at)
    if type(value) is not list:
        raise ConditionError(f"cannot index a value of type {kind(value)}", at)
    # As in CEL, `1.0` is accepted as an index too.
    place = int(key) if type(key) is float and key.is_integer() else key
    if type(place) is not int:
        raise ConditionError(f"the index of a list must be an int, but found {kind(key)},", at)
    if not 0 <= place < len(value):
        raise ConditionError(f"no element {key} in a list of {len(value)}", at)
    element = value[place]
    return element if type(element) in SCALAR_TYPES else to_cel_value(element, at)


#: Functions with three arguments: a value, the name in the node, and the position of the node.
UNARY: Mapping[str, _Unary] = MappingProxyType(
    {
        "field": _select,
        "has": _has,
        "not": lambda value, _, at: not truth(value, "!", at),
        "negate": _negate,
        "size": _size,
    }
)

#: Functions of two texts, which conditions call as methods of the first text.
TEXT_TESTS: Mapping[str, _Binary] = MappingProxyType(
    {
        "contains": partial(_text_test, "contains", operator.contains),
        "startsWith": partial(_text_test, "startsWith", str.startswith),
        "endsWith": partial(_text_test, "endsWith", str.endswith),
    }
)

BINARY: Mapping[str, _Binary] = MappingProxyType(
    {
        **TEXT_TESTS,
        "index": _index,
        "==": _equal,
        "!=": lambda left, right, at, budget: not _equal(left, right, at, budget),
        "<": partial(_ordering, "<", operator.lt),
        "<=": partial(_ordering, "<=", operator.le),
        ">": partial(_ordering, ">", operator.gt),
        ">=": partial(_ordering, ">=", operator.ge),
        "in": _member,
        "+": partial(_arithmetic, "+", operator.add, operator.add),
        "-": partial(_arithmetic, "-", operator.sub, operator.sub),
        "*": partial(_arithmetic, "*", operator.mul, operator.mul),
        "/": partial(_arithmetic, "/", _quotient, _double_quotient),
        "%": partial(_arithmetic, "%", _remainder, None),
    }
)
