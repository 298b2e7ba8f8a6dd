"""Queries for the work and the review decisions of an org since a given time."""

from datetime import datetime
from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

MAX_ENTRIES = 5_000
MAX_DECIDERS = 4


class ActivityCounts(NamedTuple):
    steps: int
    plans: int
    jobs: int
    runs: int
    failures: int
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
