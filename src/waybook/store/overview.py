"""Queries for the plans and runs on the overview page."""

from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum total of a section; the total of more plans and runs is shown as a minimum.
MAX_COUNTED = 100
#: Number of running plans and runs, with the latest activity, and of ended ones, with the latest
#: end, from which the entries of these sections are selected, and of failed steps, of the newest
#: plans and runs, whose plans and runs are looked up.
MAX_CANDIDATES = 200
#: Number of stalled plans, of plans with failed steps, of failed plans, and of runs in trouble,
#: starting with the newest, from which the entries are selected, if no more entries are requested.
#: All of them are read, because they are counted and sorted by their activity.
MAX_TROUBLED = 16


class OverviewTotals(NamedTuple):
    """Numbers of plans and runs, including those in trouble, each counted up to `max_read`."""

    #: Number of plans on which agents can work and of open runs, and of those runs that await
    #: feedback.
    open: int
    awaiting: int
    #: Number of plans and runs that ended lately.
    finished: int
    #: Time since which finished plans and runs are listed.
    since: datetime
    #: Time at which the query ran, by the database clock.
    now: datetime
    #: Whether the org has any plan or run.
    has_work: bool


class WaitingRow(NamedTuple):
    """Open review, or a run that awaits feedback."""

    kind: str
    id: str
    #: Name of the plan or run.
    name: str
    since: datetime
    is_overdue: bool
    #: Beginning of the summary and order number of the step of a review; None for a run.
    summary: str | None
    step_order: int | None
    #: Workflow definition of a run; empty and 0 for a review.
    dag_slug: str
    dag_version: int
    #: Stages of a run that have no feedback; None for a review.
    stages: list[str] | None

    @property
    def dag(self) -> tuple[str, int]:
        """Return the slug and the version of a run's workflow definition."""
        return self.dag_slug, self.dag_version


#: Time since which a step of a stalled plan has been inactive, None for a failed step; id, order
#: number, title, holder and fail reason of the step.
StepColumns = tuple[str | None, str, int, str, str | None, str | None]
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
    fail_reason: str | None
    #: Failed steps of a plan and, if it is stalled, the step that has been inactive longest.
    steps: list[StepColumns] | None
    #: Actor of the change that ended a failed plan.
    last_change: str | None
    failures: list[FailureColumns] | None
    #: One letter for each plan and run in trouble; see `TroubleKind`.
    kinds: str


class TroubleKind(StrEnum):
    """Kind of a plan or run in trouble, in `TroubledRow.kinds`."""

    OPEN = "o"
    STALLED = "s"
    #: Plan that failed since the reader's last look, and one that failed earlier.
    FAILED = "f"
    FAILED_EARLIER = "e"
    RUN = "r"


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
    #: First letters of the statuses of a plan's steps.
    statuses: str | None
    #: Steps of a plan that are in progress or await input: whether the step is in progress, its
    #: order number, title and holder.
    active_steps: list[tuple[bool, int, str, str | None]] | None
    #: Holders of the jobs of a run.
    holders: list[str] | None
    #: Number of a run's closed steps; None for a plan.
    steps_done: int | None
    #: Stages of a run that were started and are not completed; None for a plan.
    stages: list[str] | None

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
    #: First letters of the statuses of a plan's steps; None for a run.
    statuses: str | None


SQL = load(
    "overview",
    work_waiting=WaitingRow,
    work_in_trouble=TroubledRow,
    work_running=RunningRow,
    work_finished=FinishedRow,
    work_totals=OverviewTotals,
)


class LastLook(NamedTuple):
    """Times at which a reader last opened the overview page; None for a new reader."""

    #: Time since which finished work was listed.
    since: datetime | None = None
    #: Time of the reader's last request for the overview.
    looked_at: datetime | None = None


def max_troubled(most: int) -> int:
    """Return the number of plans and runs of each kind in trouble that are read."""
    return max(most, MAX_TROUBLED)


def max_read(most: int) -> int:
    """Return the number of plans and runs at which counting stops.

    It exceeds `MAX_COUNTED` by one, and by the number of those that count only as trouble.
    """
    return MAX_COUNTED + 1 + 2 * max_troubled(most)


def overview_statements(
    look: LastLook, *, most: int, wide: int, long: int, patience: float | None
) -> tuple[Statement, Statement, Statement, Statement, Statement]:
    """Select work that waits for a person, has problems, is running, or finished recently.

    The last statement counts plans and runs. `wide` and `long` are the maximum lengths of a title
    and of a summary; `patience` is the number of seconds after which a review is overdue.
    """
    since, looked_at = look
    waiting, running = _fixed_statements(most, wide, long, patience)
    return (
        waiting,
        SQL["work_in_trouble"](
            since=since,
            looked_at=looked_at,
            newest=max_troubled(most),
            most=most,
            wide=wide,
            walked=MAX_CANDIDATES,
        ),
        running,
        SQL["work_finished"](since=since, looked_at=looked_at, newest=MAX_CANDIDATES, most=most),
        SQL["work_totals"](since=since, looked_at=looked_at, counted=max_read(most)),
    )


@lru_cache(maxsize=16)
def _fixed_statements(
    most: int, wide: int, long: int, patience: float | None
) -> tuple[Statement, Statement]:
    """Return the statements for waiting and running work, which do not depend on the reader."""
    return (
        SQL["work_waiting"](most=most, long=long, patience=patience),
        SQL["work_running"](newest=MAX_CANDIDATES, most=most, wide=wide),
    )
