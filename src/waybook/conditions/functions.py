"""The functions of the language, as tables: how each is called, and what it does.

Searching a text may take the product of both lengths: Python's search is quadratic on short texts
and linear from some length on. `contains` pays for the worst of what it can meet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from waybook.conditions.budget import TEXT_PER_UNIT, Budget
from waybook.conditions.faults import ConditionError
from waybook.conditions.values import Json, kind

TextTest: TypeAlias = Callable[[str, str, int, Budget], bool]

#: From this length on Python searches in linear time, whatever the texts.
_LINEAR_SEARCH = 30_000
_COMPARISONS_PER_UNIT = 256


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called: on something, with so many arguments; or without a receiver."""

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
    """The number of code points, elements or keys."""
    if type(value) is str or type(value) is list or type(value) is dict:
        return len(value)
    raise ConditionError(f"size needs a string, list or map, found {kind(value)},", at)


def contains(text: str, part: str, at: int, budget: Budget) -> bool:
    """Say whether the part stands anywhere in the text."""
    if len(text) < _LINEAR_SEARCH:
        budget.spend(len(text) * len(part) // _COMPARISONS_PER_UNIT, at)
    else:
        budget.spend((len(text) + len(part)) // TEXT_PER_UNIT, at)
    return part in text


def starts_with(text: str, part: str, at: int, budget: Budget) -> bool:
    """Say whether the text begins with the part."""
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.startswith(part)


def ends_with(text: str, part: str, at: int, budget: Budget) -> bool:
    """Say whether the text ends with the part."""
    budget.spend(len(part) // TEXT_PER_UNIT, at)
    return text.endswith(part)


TEXT_TESTS: Mapping[str, TextTest] = MappingProxyType(
    {"contains": contains, "startsWith": starts_with, "endsWith": ends_with}
)
