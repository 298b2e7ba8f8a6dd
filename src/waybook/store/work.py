"""Counts the open work of an org."""

from typing import NamedTuple

from waybook.store.deliveries import OVERDUE_SECONDS
from waybook.store.driver.queries import Statement, load

MAX_COUNTED = 1_000
MAX_PLANS = 1_000


class WorkCount(NamedTuple):
    """Numbers of open work of an org. Counting stops at `MAX_COUNTED`."""

    steps: int = 0
    jobs: int = 0
    documents: int = 0
    deliveries: int = 0
    failed_deliveries: int = 0
    #: Webhook messages that are due, but that no process has tried to send.
    overdue_deliveries: int = 0


SQL = load("work", count_work=WorkCount)


def work_count_statement() -> Statement:
    return SQL["count_work"](most=MAX_COUNTED, plans=MAX_PLANS, overdue=OVERDUE_SECONDS)
