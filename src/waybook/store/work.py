"""Query for the open work of an org."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Number of rows of each kind at which counting stops.
MAX_COUNTED = 1_000
#: Number of open plans whose steps are counted.
MAX_PLANS = 1_000


class WorkCount(NamedTuple):
    """Open work of an org; each number stops at a limit."""

    #: Steps and jobs that a holder works on.
    steps: int = 0
    jobs: int = 0
    #: Documents that wait to be rendered.
    documents: int = 0
    #: Webhook deliveries that wait, and deliveries among the latest that were given up.
    deliveries: int = 0
    failed_deliveries: int = 0


SQL = load("work", count_work=WorkCount)


def work_count_statement() -> Statement:
    """Select the numbers of open work."""
    return SQL["count_work"](most=MAX_COUNTED, plans=MAX_PLANS)
