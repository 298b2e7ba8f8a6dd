"""Queries for the plans on the overview page."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load
from waybook.store.plans.lists import PlanSummaryRow


class PlanTotalsRow(NamedTuple):
    """Number of open plans and of plans that ended lately, including those in trouble."""

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
    """Plan that is stalled, has failed steps, or failed, as a row of the overview page."""

    summary: PlanSummaryRow
    fail_reason: str | None
    failed_steps: list[StepColumns] | None
    stalled_step: StepColumns | None
    #: Actor of the plan's latest change, which may be the change that ended the plan.
    last_change: str | None
    #: Number of all plans in trouble, of those that agents can still work on, and of those that
    #: ended lately.
    in_trouble: int
    running: int
    finished: int


class RunningPlanRow(NamedTuple):
    """Open plan without problems, as a row of the overview page."""

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
    counts: dict[str, int]
    last_change: str | None


SQL = load(
    "plans/overview",
    plan_totals=PlanTotalsRow,
    plans_in_trouble=TroubledPlanRow,
    plans_running=RunningPlanRow,
    plans_finished=FinishedPlanRow,
)

#: Maximum number of plans of each section that the overview reads: in trouble, starting with the
#: newest plan, running, with the latest activity, and ended, with the latest end.
MAX_NEWEST_PLANS = 200
#: Number of running and of finished plans at which counting stops.
MAX_COUNTED_PLANS = 1_000


class LastLook(NamedTuple):
    """Times at which a reader last opened the overview page; None for a new reader."""

    #: Time since which finished work was listed.
    since: datetime | None = None
    #: Time of the reader's last request for the overview.
    looked_at: datetime | None = None


def overview_statements(
    look: LastLook, *, most: int, wide: int
) -> tuple[Statement, Statement, Statement, Statement]:
    """Select totals, and plans that have problems, are running, or finished recently."""
    times = {**look._asdict(), "newest": MAX_NEWEST_PLANS}
    return (
        SQL["plan_totals"](**look._asdict(), counted=MAX_COUNTED_PLANS),
        SQL["plans_in_trouble"](**times, most=most, wide=wide),
        SQL["plans_running"](newest=MAX_NEWEST_PLANS, most=most, wide=wide),
        SQL["plans_finished"](**times, most=most),
    )
