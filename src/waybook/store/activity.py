"""Queries for the work and the review decisions of an org since a given time."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

MAX_ENTRIES = 5_000
#: Maximum number of reviewers in the activity summary.
MAX_DECIDERS = 4


class ActivityCounts(NamedTuple):
    #: Completed steps, and the number of their plans.
    steps: int
    plans: int
    #: Completed jobs, and the number of their runs.
    jobs: int
    runs: int
    failures: int
    #: Whether there were more than `MAX_ENTRIES` audit entries. The counts are then too low.
    is_partial: bool
    cost_micros: int


class DecisionCount(NamedTuple):
    user: str
    decision: str
    reviews: int


SQL = load("activity", activity_counts=ActivityCounts, decisions_since=DecisionCount)


def activity_statements(since: datetime) -> tuple[Statement, Statement]:
    return (
        SQL["activity_counts"](since=since, most=MAX_ENTRIES),
        SQL["decisions_since"](since=since, most=MAX_ENTRIES, users=MAX_DECIDERS),
    )
