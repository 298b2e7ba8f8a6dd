"""Queries for the plans and runs on the overview page."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Number of plans and of runs at which counting stops.
MAX_COUNTED = 200
#: Number of running plans and runs, with the latest activity, and of ended ones, with the latest
#: end, from which the entries of these sections are selected.
MAX_CANDIDATES = 200
#: Number of plans and of runs in trouble, starting with the newest, from which the entries are
#: selected, if no more entries are requested. All of them are read, because they are counted and
#: sorted by their activity.
MAX_TROUBLED = 50


class OverviewTotals(NamedTuple):
    """Numbers of plans and runs, including those in trouble, each counted up to `MAX_COUNTED`."""

    open_plans: int
    open_runs: int
    #: Number of open runs that await feedback.
    awaiting_runs: int
    #: Numbers of plans and runs that ended lately.
    finished_plans: int
    finished_runs: int
    #: Whether the org has any plan or run.
    has_work: bool
    #: Time since which finished plans and runs are listed.
    since: datetime
    #: Time at which the query ran, by the database clock.
    now: datetime


#: Id, order number, title, holder and fail reason of a step.
StepColumns = tuple[str, int, str, str | None, str | None]
#: Stage with failed jobs, and step, model, attempt, error, holder and end of the job that failed
#: last, whether it used all its retries, and the number of failed jobs.
FailureColumns = tuple[str, str, str, int, str, str | None, str, bool, int]


class TroubledRow(NamedTuple):
    """Plan that is stalled, has failed steps, or failed, or an open run with failed jobs."""

    kind: str
    id: str
    name: str
    #: Status and revision of a plan; None for a run.
    status: str | None
    revision: int | None
    updated_at: datetime
    now: datetime
    fail_reason: str | None
    failed_steps: list[StepColumns] | None
    stalled_step: StepColumns | None
    #: Time since which a stalled plan has been inactive.
    inactive_since: datetime | None
    #: Actor of the change that ended a failed plan.
    last_change: str | None
    failures: list[FailureColumns] | None
    #: Number of all plans and runs in trouble, of the plans that agents can still work on, of the
    #: plans that ended lately, and of the runs.
    in_trouble: int
    open_plans: int
    finished_plans: int
    runs: int


class RunningRow(NamedTuple):
    """Open plan or run without problems."""

    kind: str
    id: str
    name: str
    #: Status of a plan; None for a run.
    status: str | None
    #: Workflow definition of a run; empty and 0 for a plan.
    dag_slug: str
    dag_version: int
    updated_at: datetime
    #: Number of a plan's steps in each status, and order number and title of its current step.
    counts: dict[str, int]
    current_step: tuple[int, str] | None
    holders: list[str] | None
    #: Started stages of a run, as in `RunSummaryRow`.
    stages: list[tuple[str, bool, bool, int, int, list[str]]] | None

    @property
    def dag(self) -> tuple[str, int]:
        """Return the slug and the version of a run's workflow definition."""
        return self.dag_slug, self.dag_version


class FinishedRow(NamedTuple):
    """Plan or run that was completed or canceled."""

    kind: str
    id: str
    name: str
    canceled: bool
    reason: str | None
    canceled_by: str | None
    created_at: datetime
    ended_at: datetime
    #: Number of a plan's steps in each status; None for a run.
    counts: dict[str, int] | None


SQL = load(
    "overview",
    overview_totals=OverviewTotals,
    work_in_trouble=TroubledRow,
    work_running=RunningRow,
    work_finished=FinishedRow,
)


class LastLook(NamedTuple):
    """Times at which a reader last opened the overview page; None for a new reader."""

    #: Time since which finished work was listed.
    since: datetime | None = None
    #: Time of the reader's last request for the overview.
    looked_at: datetime | None = None


def max_troubled(most: int) -> int:
    """Return the number of plans and of runs in trouble from which the entries are selected."""
    return max(most, MAX_TROUBLED)


def overview_statements(
    look: LastLook, *, most: int, wide: int
) -> tuple[Statement, Statement, Statement, Statement]:
    """Select totals, and work that has problems, is running, or finished recently."""
    times = look._asdict()
    listed = {"newest": MAX_CANDIDATES, "most": most}
    return (
        SQL["overview_totals"](**times, counted=MAX_COUNTED, newest=MAX_COUNTED),
        SQL["work_in_trouble"](**times, newest=max_troubled(most), most=most, wide=wide),
        SQL["work_running"](**listed, wide=wide),
        SQL["work_finished"](**times, **listed),
    )
