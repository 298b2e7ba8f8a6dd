"""Queries for the plans and runs on the overview page."""

from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Highest total shown for a section of the page. A larger one is shown as "at least" this number.
MAX_COUNTED = 100
#: Number of rows among which a section of the page looks for its entries.
MAX_CANDIDATES = 200
#: Number of newest plans and runs read for each kind of trouble, unless more are requested.
MAX_TROUBLED = 16


class OverviewTotals(NamedTuple):
    """Numbers of plans and runs. Each is counted up to `max_read`."""

    #: Number of open runs and workable plans, and number of runs that await feedback.
    open: int
    awaiting: int
    #: Number of plans and runs that ended recently.
    finished: int
    since: datetime
    now: datetime
    #: Whether the org has any plan or run.
    has_work: bool


class WaitingRow(NamedTuple):
    """An open review, or a run that awaits feedback."""

    kind: str
    id: str
    name: str
    since: datetime
    is_overdue: bool
    #: Start of the review's summary, and the order number of its step. None for a run.
    summary: str | None
    step_order: int | None
    #: Workflow of a run. Empty and 0 for a review.
    dag_slug: str
    dag_version: int
    #: Stages of a run without feedback. None for a review.
    stages: list[str] | None

    @property
    def dag(self) -> tuple[str, int]:
        return self.dag_slug, self.dag_version


#: Columns of a step: start of its inactivity (None if failed), id, order number, title, holder and
#: reason of failure.
StepColumns = tuple[str | None, str, int, str, str | None, str | None]
#: Columns of a stage with failed jobs: the stage; step, model, attempt, error, holder and end of
#: the last failed job; whether its retries are used up; and the number of failed jobs.
FailureColumns = tuple[str, str, str, int, str, str | None, str, bool, int]


class TroubledRow(NamedTuple):
    """A plan that is stalled, failed or has failed steps, or an open run with failed jobs."""

    kind: str
    id: str
    name: str
    #: Status and revision of a plan. None for a run.
    status: str | None
    revision: int | None
    updated_at: datetime
    fail_reason: str | None
    #: Failed steps of a plan. For a stalled plan, also the step that was inactive longest.
    steps: list[StepColumns] | None
    #: Actor of the change that ended a failed plan.
    last_change: str | None
    failures: list[FailureColumns] | None
    #: One letter of `TroubleKind` for each plan and run in trouble.
    kinds: str


class TroubleKind(StrEnum):
    """Kind of trouble of a plan or run."""

    OPEN = "o"
    STALLED = "s"
    #: A plan that failed since the reader's last visit, and a plan that failed before it.
    FAILED = "f"
    FAILED_EARLIER = "e"
    RUN = "r"


class RunningRow(NamedTuple):
    kind: str
    id: str
    name: str
    status: str | None
    #: Workflow of a run. Empty and 0 for a plan.
    dag_slug: str
    dag_version: int
    updated_at: datetime
    #: First letters of the statuses of a plan's steps. None for a run.
    statuses: str | None
    #: A plan's steps that are in progress or await input: whether in progress, order number, title
    #: and holder.
    active_steps: list[tuple[bool, int, str, str | None]] | None
    #: Holders of the jobs of a run.
    holders: list[str] | None
    #: Number of a run's closed steps. None for a plan.
    steps_done: int | None
    #: Stages of a run that are started and not completed. None for a plan.
    stages: list[str] | None

    @property
    def dag(self) -> tuple[str, int]:
        return self.dag_slug, self.dag_version


class FinishedRow(NamedTuple):
    kind: str
    id: str
    name: str
    canceled: bool
    reason: str | None
    canceled_by: str | None
    created_at: datetime
    ended_at: datetime
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
    """Times at which a reader last opened the overview page. None for a new reader."""

    #: Start of the period whose finished work the page listed.
    since: datetime | None = None
    looked_at: datetime | None = None


def max_troubled(most: int) -> int:
    """Return the maximum number of plans and runs to read for each kind of trouble."""
    return max(most, MAX_TROUBLED)


def max_read(most: int) -> int:
    """Return the number of plans and runs at which counting stops.

    Plans and runs that are shown only as trouble are counted in addition.
    """
    return MAX_COUNTED + 1 + 2 * max_troubled(most)


def overview_statements(
    look: LastLook, *, most: int, wide: int, long: int, patience: float | None
) -> tuple[Statement, Statement, Statement, Statement, Statement]:
    """Select work that waits for a person, has problems, is running, or finished recently.

    The last statement counts plans and runs. `wide` and `long` are the maximum lengths of a title
    and a summary. A review is overdue after `patience` seconds.
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
    """Return the statements for waiting and running work. They are the same for every reader."""
    return (
        SQL["work_waiting"](most=most, long=long, patience=patience),
        SQL["work_running"](newest=MAX_CANDIDATES, most=most, wide=wide),
    )
