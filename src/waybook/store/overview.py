"""Queries for the plans and runs on the overview page."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Counting stops at this number. A page then shows "at least" this number.
MAX_COUNTED = 100
_MAX_CANDIDATES = 200
MAX_TROUBLED = 16


_StepColumns = tuple[str | None, str, int, str, str | None, str | None]
_FailureColumns = tuple[str, str, str, int, str, str | None, str, bool, int]


class TroubleKind(StrEnum):
    OPEN = "o"
    STALLED = "s"
    #: `FAILED` is a plan that failed after the reader's last visit. `FAILED_EARLIER` is a plan that
    #: failed before that visit.
    FAILED = "f"
    FAILED_EARLIER = "e"
    RUN = "r"


MAX_ENTRIES = 5_000
_MAX_DECIDERS = 4


SQL = load("overview")


class LastLook(NamedTuple):
    """The times at which a reader last opened the overview page."""

    since: datetime | None = None
    looked_at: datetime | None = None


def max_troubled(most: int) -> int:
    return max(most, MAX_TROUBLED)


def max_read(most: int) -> int:
    return MAX_COUNTED + 1 + 2 * max_troubled(most)


def overview_statements(
    look: LastLook, *, most: int, wide: int, long: int, patience: float | None
) -> tuple[Statement, ...]:
    """Select work that waits for a person, has problems, is running, or finished recently.

    Each list has up to `most` rows. Reasons and error texts are cut to `wide` characters, and
    review summaries to `long` characters. A review is overdue after `patience` seconds.
    """
    since, looked_at = look
    return (
        SQL["work_waiting"](most=most, long=long, patience=patience),
        SQL["work_in_trouble"](
            since=since,
            looked_at=looked_at,
            newest=max_troubled(most),
            most=most,
            wide=wide,
            walked=_MAX_CANDIDATES,
        ),
        SQL["work_running"](newest=_MAX_CANDIDATES, most=most, wide=wide),
        SQL["work_finished"](
            since=since, looked_at=looked_at, newest=_MAX_CANDIDATES, most=most, wide=wide
        ),
        SQL["work_totals"](since=since, looked_at=looked_at, counted=max_read(most)),
        SQL["work_by_hour"](most=MAX_ENTRIES),
    )


def activity_statements(since: datetime) -> tuple[Statement, Statement]:
    return (
        SQL["activity_counts"](since=since, most=MAX_ENTRIES),
        SQL["decisions_since"](since=since, most=MAX_ENTRIES, users=_MAX_DECIDERS),
    )
