"""When a letter that was not taken is tried again, and when it is given up."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from waybook.notices.letter import Letter, Outcome

#: Before the second attempt; three times as long before each further one, up to the longest.
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=4)
FACTOR = 3
#: By how much of itself a pause is longer or shorter, so that not all come back at once.
JITTER = 0.2
#: The exponent beyond which every pause is the longest.
MOST_TRIPLINGS = 12

#: How long a letter is tried.
PATIENCE = timedelta(days=1)


class Standing(StrEnum):
    """Where a letter stands."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Verdict(NamedTuple):
    standing: Standing
    #: When it is tried again, if it is.
    due_at: datetime


def verdict(letter: Letter, outcome: Outcome, chance: float) -> Verdict:
    """What becomes of a letter after this attempt; `chance` is from 0 to 1."""
    if outcome.fault is None:
        return Verdict(Standing.DELIVERED, letter.now)
    due_at = letter.now + pause(letter.attempt, chance)
    if outcome.final or due_at > letter.expires_at:
        return Verdict(Standing.GIVEN_UP, letter.now)
    return Verdict(Standing.WAITING, due_at)


def pause(attempt: int, chance: float) -> timedelta:
    """How long to wait after the attempt with this number.

    >>> [pause(n, 0.5).total_seconds() for n in (1, 2, 3, 9)]
    [5.0, 15.0, 45.0, 14400.0]
    """
    grown = FIRST_PAUSE * int(FACTOR ** min(attempt - 1, MOST_TRIPLINGS))
    return min(grown, LONGEST_PAUSE) * (1 - JITTER + 2 * JITTER * chance)
