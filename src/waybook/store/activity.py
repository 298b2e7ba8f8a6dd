"""Queries for the work and the review decisions of an org since a given time."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of the newest audit entries that are counted.
MAX_ENTRIES = 5_000
#: Maximum number of lines about decisions.
MAX_DECIDERS = 4


class ActivityCounts(NamedTuple):
    """Numbers of completed and failed work in an org, and its cost."""

    #: Completed steps of plans, and the number of these plans.
    steps: int
    plans: int
    #: Completed jobs of runs, and the number of these runs.
    jobs: int
    runs: int
    failures: int
    #: Whether there were more audit entries than are counted.
    is_partial: bool
    cost_micros: int


class DecisionCount(NamedTuple):
    """Number of reviews that one user decided with the same answer."""

    user: str
    decision: str
    reviews: int


SQL = load("activity", activity_counts=ActivityCounts, decisions_since=DecisionCount)


def activity_statements(since: datetime) -> tuple[Statement, Statement]:
    """Select the numbers of completed work, and the review decisions, since this time."""
    return (
        SQL["activity_counts"](since=since, most=MAX_ENTRIES),
        SQL["decisions_since"](since=since, most=MAX_ENTRIES, users=MAX_DECIDERS),
    )
