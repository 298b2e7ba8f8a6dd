"""Defines and adds up the usage that agents report with results: tokens and cost.

Cost is a whole number of millionths of a dollar, so that sums are exact.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from waybook.json_values import Json

DOLLAR = 1_000_000


class Usage(NamedTuple):
    """Usage that an agent reported with one result. Numbers that it left out are null."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None
    model: str | None = None

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of two usages, with the language model of `other` if it names a model.

        >>> Usage(input_tokens=3).plus(Usage(input_tokens=1, output_tokens=2, model="m"))
        Usage(input_tokens=4, output_tokens=2, cost_micros=None, model='m')
        """
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost_micros=_sum(self.cost_micros, other.cost_micros),
            model=other.model or self.model,
        )


def _sum(first: int | None, other: int | None) -> int | None:
    return first if other is None else other + (first or 0)


class Totals(NamedTuple):
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    results: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, usage: Usage) -> "Totals":
        return Totals(
            self.input_tokens + (usage.input_tokens or 0),
            self.output_tokens + (usage.output_tokens or 0),
            self.cost_micros + (usage.cost_micros or 0),
            self.results + 1,
        )

    def as_reply(self) -> dict[str, Json]:
        """Return the totals as replies show them.

        >>> Totals(input_tokens=3, output_tokens=1, cost_micros=150, results=1).as_reply()
        {'inputTokens': 3, 'outputTokens': 1, 'costUsd': 0.00015, 'results': 1}
        """
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "costUsd": to_dollars(self.cost_micros),
            "results": self.results,
        }


NO_USAGE = Totals()


def totals_from_json(stored: Mapping[str, int] | None) -> Totals:
    return Totals(**stored) if stored else NO_USAGE


def to_micros(dollars: float) -> int:
    """Convert dollars to millionths of a dollar, rounded half up.

    >>> to_micros(0.1 + 0.2), to_micros(0.0000005), to_micros(1e-9), to_micros(12)
    (300000, 1, 0, 12000000)
    """
    return int((Decimal(repr(dollars)) * DOLLAR).to_integral_value(ROUND_HALF_UP))


def to_dollars(micros: int) -> float:
    return micros / DOLLAR


def format_cost(micros: int) -> str:
    """Format an amount in dollars: rounded to cents, or exactly if it is less than one cent.

    >>> format_cost(1_234_560_000), format_cost(450_000), format_cost(150), format_cost(0)
    ('$1,234.56', '$0.45', '$0.00015', '$0.00')
    """
    if 0 < micros < DOLLAR // 100:
        return f"${micros / DOLLAR:.6f}".rstrip("0")
    return f"${micros / DOLLAR:,.2f}"
