"""What people are told without asking: that something has happened which may need them."""

from enum import StrEnum
from typing import NamedTuple

from waybook.record.moment import Json

#: The characters a name may have in a notice, and a summary.
MAX_NAME_LENGTH = 200
MAX_SUMMARY_LENGTH = 500
#: The parts a notice names, at most.
MAX_NAMES_LISTED = 10


class NotificationKind(StrEnum):
    """What a notice can be about."""

    REVIEW_REQUESTED = "plan.review_requested"
    PLAN_STALLED = "plan.stalled"
    PLAN_COMPLETED = "plan.completed"
    PLAN_FAILED = "plan.failed"
    AWAITING_FEEDBACK = "run.awaiting_feedback"
    STAGE_FAILED = "run.stage_failed"
    RUN_COMPLETED = "run.completed"
    #: Sent by whoever wants to know whether notices arrive.
    TEST = "webhook.test"


class Notification(NamedTuple):
    """One thing to tell, of one plan or run: ids, names and counts, never what a result says."""

    kind: NotificationKind
    subject_id: str
    data: dict[str, Json]


def shorten(text: str, most: int = MAX_NAME_LENGTH) -> str:
    r"""A text on one line, of so many characters at most.

    >>> shorten("Rivers\n of  Asia"), shorten("abcdef", 4)
    ('Rivers of Asia', 'abc…')
    """
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
