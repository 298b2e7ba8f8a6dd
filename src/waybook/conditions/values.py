"""Converts JSON values to CEL values, and defines the errors and the budget of an evaluation.

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

from collections.abc import Mapping, Sequence
from math import inf
from types import NoneType
from typing import TypeAlias


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
