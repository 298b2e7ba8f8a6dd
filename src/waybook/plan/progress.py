"""Progress counts and the soft budget of a plan.

A percentage never claims more than the counts say. The budget only warns and never refuses:
finished work is accepted, regardless of its usage.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from waybook.core.usage import Totals, to_dollars
from waybook.json_values import Json
from waybook.plan.model import Budget, Plan, Step
from waybook.plan.states import DONE_STEP, PlanStatus, StepStatus


def percent(done: int, total: int) -> int:
    """Return the share done in whole percent, rounded half up; 0 if the total is 0.

    >>> percent(3, 13), percent(1, 8), percent(199, 200), percent(0, 0)
    (23, 13, 100, 0)
    """
    return (200 * done + total) // (2 * total) if total else 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps of a plan, counted by status."""

    counts: Mapping[StepStatus, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """Return the number of completed or skipped steps. This number never decreases."""
        return sum(self.counts.get(status, 0) for status in DONE_STEP)

    @property
    def failed(self) -> int:
        return self.counts.get(StepStatus.FAILED, 0)

    @property
    def in_progress(self) -> int:
        return self.counts.get(StepStatus.IN_PROGRESS, 0)

    @property
    def percent(self) -> int:
        return percent(self.done, self.total)

    def as_reply(self) -> dict[str, Json]:
        """Return the percentage with its numerator and denominator."""
        return {"percent": self.percent, "done": self.done, "total": self.total}


def plan_progress(plan: Plan) -> Progress:
    return Progress(Counter(plan.statuses()))


def count_done(statuses: Collection[StepStatus]) -> int:
    """Return the number of completed or skipped steps. This number never decreases."""
    return sum(status in DONE_STEP for status in statuses)


def current_step(plan: Plan) -> Step | None:
    """Return the step awaiting input, else the first in progress."""
    waiting = next(plan.steps_with_status(StepStatus.AWAITING_INPUT), None)
    return waiting or next(plan.steps_with_status(StepStatus.IN_PROGRESS), None)


def plan_outcome(status: PlanStatus, statuses: Collection[StepStatus]) -> str | None:
    """Return the outcome of a closed plan; None while it is open."""
    if status is PlanStatus.FAILED:
        return "failed"
    if status is PlanStatus.COMPLETED:
        return "completed_with_failures" if StepStatus.FAILED in statuses else "completed"
    return None


#: Percentage from which the agent is warned about the budget.
WARNING_PERCENT = 80
FULL_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShare:
    """One limit of a budget and its usage."""

    name: str
    unit: str
    used: int
    of: int

    @property
    def percent(self) -> int:
        """Return the used share in whole percent, rounded down: 100 means fully used."""
        return FULL_PERCENT * self.used // self.of


def shares(budget: Budget, used: Totals) -> Iterator[BudgetShare]:
    """Yield the limits of a budget with their usage."""
    if budget.tokens is not None:
        yield BudgetShare(name="tokens", unit="tokens", used=used.tokens, of=budget.tokens)
    if budget.cost_micros is not None:
        yield BudgetShare(
            name="costUsd", unit="money", used=used.cost_micros, of=budget.cost_micros
        )


def budget_json(budget: Budget, used: Totals) -> dict[str, Json]:
    """Return the budget as replies show it; from 80 % on with a warning text."""
    parts = [*shares(budget, used)]
    fields: dict[str, Json] = {part.name: _share_to_json(part) for part in parts}
    warnings = [message for part in parts if (message := warning(part)) is not None]
    return {**fields, "warning": " ".join(warnings)} if warnings else fields


def warning(part: BudgetShare) -> str | None:
    """Return the warning for a limit that is nearly used up or exceeded.

    >>> warning(BudgetShare(name="tokens", unit="tokens", used=79, of=100))
    >>> warning(BudgetShare(name="tokens", unit="tokens", used=80, of=100))
    "80 % of the plan's tokens are used: keep what is left short."
    """
    if part.used > part.of:
        return (
            f"The plan is over its budget of {part.unit} ({part.percent} %): tell the person you "
            "work for, and finish with as little as you can."
        )
    if part.percent >= WARNING_PERCENT:
        be = "are" if part.unit == "tokens" else "is"
        return f"{part.percent} % of the plan's {part.unit} {be} used: keep what is left short."
    return None


def _share_to_json(part: BudgetShare) -> Json:
    if part.name == "costUsd":
        used, of = to_dollars(part.used), to_dollars(part.of)
        return {"used": used, "of": of, "percent": part.percent}
    return {"used": part.used, "of": part.of, "percent": part.percent}
