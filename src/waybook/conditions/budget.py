"""What one evaluation may cost, counted in operations and bytes, never in time.

The rates, chosen so that the dearest condition stays far below 50 ms and a few megabytes:

- each node of the expression costs 1, paid before the evaluation starts;
- each round of a macro costs the nodes of its body, and 1;
- copying or comparing text costs 1 per `TEXT_PER_UNIT` characters, lists 1 per `ITEMS_PER_UNIT`;
- comparing lists and maps costs `COMPARED_PAIR` per list, map and element in them, however deep;
- looking for an element in a list costs `COMPARED_ITEM` for each it is compared with;
- an error that `&&`, `||`, `exists` or `all` absorbs costs `ABSORBED_ERROR`;
- searching a text costs by both lengths, see `waybook.conditions.functions`.

The conditions of a step share one budget, since one call evaluates them all: see `SharedBudget`.

What one evaluation reads and writes, and the shape of what runs in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from waybook.conditions.values import Json

BUDGET = 100_000
#: Part of a shared budget that is kept for each condition still to be evaluated.
RESERVED_PER_CONDITION = 1_000

TEXT_PER_UNIT = 64
ITEMS_PER_UNIT = 8
ABSORBED_ERROR = 10
COMPARED_PAIR = 4
COMPARED_ITEM = 3


class BudgetExceeded(Exception):
    """The budget is spent. Nothing absorbs this: the evaluation is over."""

    def __init__(self, at: int, limit: int = BUDGET) -> None:
        """Remember which operation could not be paid, and how much there was to spend."""
        self.at = at
        self.limit = limit

    def __str__(self) -> str:
        shared = f" that its step's conditions left of {BUDGET}" if self.limit < BUDGET else ""
        return (
            f"too expensive: over the budget of {self.limit} operations{shared} at position "
            f"{self.at}; look at fewer elements or shorter texts"
        )


class Budget:
    """What is left of one evaluation's budget.

    >>> budget = Budget()
    >>> budget.spend(10, at=0)
    >>> budget.spent
    10
    """

    __slots__ = ("left", "limit")

    def __init__(self, limit: int = BUDGET) -> None:
        """Start with everything."""
        self.limit = limit
        self.left = limit

    @property
    def spent(self) -> int:
        """What was paid so far, never more than the whole budget."""
        return self.limit - self.left

    def spend(self, cost: int, at: int) -> None:
        """Pay before the work is done.

        Raises:
            Exhausted: the work would cost more than is left.
        """
        if cost > self.left:
            self.left = 0
            raise BudgetExceeded(at, self.limit)
        self.left -= cost


class SharedBudget:
    """One budget for all conditions that a call evaluates, in their order.

    Each may spend what is left but for a reserve of those behind it, so that an expensive
    condition does not keep a cheap one from being evaluated.

    >>> shared = SharedBudget(conditions=2)
    >>> first = shared.next_budget()
    >>> first.limit
    99000
    >>> first.spend(90_000, at=0)
    >>> shared.next_budget().limit
    10000
    """

    def __init__(self, conditions: int) -> None:
        """Start with a whole budget for this many conditions."""
        self._waiting = conditions
        self._left = BUDGET
        self._current: Budget | None = None

    def next_budget(self) -> Budget:
        """Return the budget of the next condition; the one before it is settled."""
        if self._current is not None:
            self._left -= self._current.spent
        self._waiting -= 1
        reserve = RESERVED_PER_CONDITION * self._waiting
        self._current = Budget(max(self._left - reserve, RESERVED_PER_CONDITION))
        return self._current


@dataclass(slots=True)
class Frame:
    """The variables, those bound by macros, and the budget.

    It is written to, but only by the one evaluation it was made for.
    """

    values: Mapping[str, Json]
    bound: list[Json]
    budget: Budget


#: Returns an admitted value, or raises a `Fault`.
Run: TypeAlias = Callable[[Frame], Json]
