"""Limits the work for evaluating a condition, counted in operations instead of time.

Each operation has a cost, chosen so that even the most expensive condition takes far less than 50
ms. All conditions of a step share one budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from waybook.conditions.values import Json

BUDGET = 100_000
#: Part of the shared budget that is reserved for each condition still to be evaluated.
RESERVED_PER_CONDITION = 1_000

TEXT_PER_UNIT = 64
ITEMS_PER_UNIT = 8
ABSORBED_ERROR = 10
COMPARED_PAIR = 4
COMPARED_ITEM = 3


class BudgetExceeded(Exception):
    """The budget is exhausted. Unlike other errors, this one always ends the evaluation."""

    def __init__(self, at: int, limit: int = BUDGET) -> None:
        self.at = at
        self.limit = limit

    def __str__(self) -> str:
        shared = f" that its step's conditions left of {BUDGET}" if self.limit < BUDGET else ""
        return (
            f"too expensive: over the budget of {self.limit} operations{shared} at position "
            f"{self.at}; look at fewer elements or shorter texts"
        )


class Budget:
    """Limit on the work for evaluating one condition, and how much of it is spent.

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


@dataclass(slots=True)
class Frame:
    values: Mapping[str, Json]
    bound: list[Json]
    budget: Budget


Run: TypeAlias = Callable[[Frame], Json]
