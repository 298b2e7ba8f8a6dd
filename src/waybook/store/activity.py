"""Queries for the work and the review decisions of an org since a given time."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of audit entries, newest first, that are read to count an org's activity.
MAX_ENTRIES = 5_000
#: Maximum number of reviewers whose decisions the activity summary lists.
MAX_DECIDERS = 4


class ActivityCounts(NamedTuple):
    """Completed and failed work of an org, and its cost."""

    #: Completed plan steps, and the number of plans they belong to.
    steps: int
    plans: int
    #: Completed jobs, and the number of runs they belong to.
    jobs: int
    runs: int
    failures: int
    #: Whether there were more than `MAX_ENTRIES` audit entries, so the counts are too low.
    is_partial: bool
    cost_micros: int


class DecisionCount(NamedTuple):
    user: str
    decision: str
    reviews: int


SQL = load("activity", activity_counts=ActivityCounts, decisions_since=DecisionCount)


def activity_statements(since: datetime) -> tuple[Statement, Statement]:
    """Select the counts of completed and failed work, and the review decisions, since this time."""
    return (
        SQL["activity_counts"](since=since, most=MAX_ENTRIES),
        SQL["decisions_since"](since=since, most=MAX_ENTRIES, users=MAX_DECIDERS),
    )
