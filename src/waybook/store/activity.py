"""Queries for the work and the review decisions of an org since a given time."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of audit entries, starting with the newest, from which the activity of an org is
#: counted.
MAX_ENTRIES = 5_000
#: Maximum number of reviewers whose decisions the activity summary lists.
MAX_DECIDERS = 4


class ActivityCounts(NamedTuple):
    """Numbers of completed and failed work in an org, and its cost."""

    #: Number of completed steps of plans, and number of these plans.
    steps: int
    plans: int
    #: Number of completed jobs of runs, and number of these runs.
    jobs: int
    runs: int
    failures: int
    #: Whether there were more audit entries than `MAX_ENTRIES`, so that the numbers are incomplete.
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
