"""Queries for the plans on the overview page."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load
from waybook.store.plans.lists import PlanSummaryRow


class PlanTotalsRow(NamedTuple):
    """Number of plans in each section of the overview."""

    in_trouble: int
    running: int
    finished: int
    #: Whether the org has any plan or run.
    has_work: bool
    #: Time since which finished plans and runs are listed.
    since: datetime
    #: Time at which the query ran, by the database clock.
    now: datetime


#: Id, order number, title, holder and fail reason of a step.
StepColumns = tuple[str, int, str, str | None, str | None]


class TroubledPlanRow(NamedTuple):
    """Plan that is stalled, has failed steps, or failed."""

    summary: PlanSummaryRow
    fail_reason: str | None
    failed_steps: list[StepColumns] | None
    stalled_step: StepColumns | None
    #: Actor of the latest change that may have ended the plan.
    last_change: str | None


class RunningPlanRow(NamedTuple):
    """Open plan without trouble."""

    summary: PlanSummaryRow
    holders: list[str] | None


class FinishedPlanRow(NamedTuple):
    """Plan that was completed or canceled."""

    id: str
    name: str
    status: str
    canceled: bool
    fail_reason: str | None
    created_at: datetime
    completed_at: datetime
    counts: dict[str, int] | None
    last_change: str | None


SQL = load(
    "plans/overview",
    plan_totals=PlanTotalsRow,
    plans_in_trouble=TroubledPlanRow,
    plans_running=RunningPlanRow,
    plans_finished=FinishedPlanRow,
)

#: Number of the newest plans of each kind that the overview takes into account.
MAX_NEWEST_PLANS = 1_000
#: Number of the open plans with the latest activity among which running plans are looked up.
MAX_RUNNING_PLANS = 200


class LastLook(NamedTuple):
    """Times of the overview as a reader last saw it; None for a new reader."""

    #: Time since which finished work was listed.
    since: datetime | None = None
    #: Time of the reader's last request.
    looked_at: datetime | None = None


def overview_statements(
    look: LastLook, *, most: int, wide: int
) -> tuple[Statement, Statement, Statement, Statement]:
    """Select totals, and plans in trouble, running, and finished since the last look."""
    times = {**look._asdict(), "newest": MAX_NEWEST_PLANS}
    return (
        SQL["plan_totals"](**times),
        SQL["plans_in_trouble"](**times, most=most, wide=wide),
        SQL["plans_running"](newest=MAX_RUNNING_PLANS, most=most, wide=wide),
        SQL["plans_finished"](**times, most=most),
    )
