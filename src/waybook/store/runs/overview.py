"""Queries for the runs on the overview page."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load
from waybook.store.runs.rows import RunSummaryRow

#: Stage with failed jobs, and step, model, attempt, error, holder and end of the job that failed
#: last, whether it used all its retries, and the number of failed jobs.
FailureColumns = tuple[str, str, str, int, str, str | None, str, bool, int]


class TroubledRunRow(NamedTuple):
    """Open run with failed jobs, as a row of the overview page."""

    summary: RunSummaryRow
    #: Number of all runs in trouble.
    in_trouble: int
    failures: list[FailureColumns] | None


class RunningRunRow(NamedTuple):
    """Open run without problems, as a row of the overview page."""

    summary: RunSummaryRow
    #: Number of all running runs.
    running: int
    holders: list[str] | None


class FinishedRunRow(NamedTuple):
    """Run that was completed or canceled."""

    id: str
    name: str
    canceled: bool
    canceled_by: str | None
    cancel_reason: str | None
    created_at: datetime
    ended_at: datetime
    #: Number of all runs that finished lately.
    finished: int


SQL = load(
    "runs/overview",
    runs_in_trouble=TroubledRunRow,
    runs_running=RunningRunRow,
    runs_finished=FinishedRunRow,
)

#: Maximum number of open runs that the overview reads, starting with the run that was started last.
MAX_NEWEST_RUNS = 200


def overview_statements(
    since: datetime | None, looked_at: datetime | None, *, most: int, wide: int
) -> tuple[Statement, Statement, Statement]:
    """Select runs that have problems, are running, or finished recently, with their totals."""
    listed = {"newest": MAX_NEWEST_RUNS, "most": most}
    return (
        SQL["runs_in_trouble"](**listed, wide=wide),
        SQL["runs_running"](**listed),
        SQL["runs_finished"](**listed, since=since, looked_at=looked_at),
    )
