"""Queries for the runs on the overview page."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load
from waybook.store.runs.rows import RunSummaryRow


class RunTotalsRow(NamedTuple):
    """Number of runs in each section of the overview page."""

    in_trouble: int
    running: int
    finished: int


class RunFailureRow(NamedTuple):
    """Stage of a run with failed jobs, and the job that failed last."""

    run_id: str
    stage: str
    step_key: str
    model: str
    attempt: int
    error: str
    held_by: str | None
    at: datetime
    #: Whether the job failed because it used all its retries.
    out_of_retries: bool
    #: Number of failed jobs of the stage.
    jobs: int


class RunHolderRow(NamedTuple):
    run_id: str
    held_by: str


class FinishedRunRow(NamedTuple):
    """Run that was completed or canceled."""

    id: str
    name: str
    canceled: bool
    canceled_by: str | None
    cancel_reason: str | None
    created_at: datetime
    ended_at: datetime


SQL = load(
    "runs/overview",
    run_totals=RunTotalsRow,
    runs_in_trouble=RunSummaryRow,
    run_failures=RunFailureRow,
    runs_running=RunSummaryRow,
    run_holders=RunHolderRow,
    runs_finished=FinishedRunRow,
)

#: Maximum number of open runs that the overview reads, starting with the run that was started last.
MAX_NEWEST_RUNS = 200


def overview_statements(
    since: datetime | None, looked_at: datetime | None, *, most: int, wide: int
) -> tuple[Statement, ...]:
    """Select totals, and runs that have problems, are running, or finished recently."""
    times = {"since": since, "looked_at": looked_at, "newest": MAX_NEWEST_RUNS}
    listed = {"newest": MAX_NEWEST_RUNS, "most": most}
    return (
        SQL["run_totals"](**times),
        SQL["runs_in_trouble"](**listed),
        SQL["run_failures"](**listed, wide=wide),
        SQL["runs_running"](**listed),
        SQL["run_holders"](**listed),
        SQL["runs_finished"](**times, most=most),
    )
