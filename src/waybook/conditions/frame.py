"""What one evaluation reads and writes, and the shape of what runs in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from waybook.conditions.budget import Budget
from waybook.conditions.values import Json


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
