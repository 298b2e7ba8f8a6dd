"""When a letter that was not taken is tried again, and when it is given up."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from waybook.notices.letter import DeliveryOutcome, WebhookMessage

#: Before the second attempt; three times as long before each further one, up to the longest.
FIRST_BACKOFF = timedelta(seconds=5)
MAX_BACKOFF = timedelta(hours=4)
FACTOR = 3
#: By how much of itself a pause is longer or shorter, so that not all come back at once.
JITTER = 0.2
#: The exponent beyond which every pause is the longest.
MAX_EXPONENT = 12

#: How long a letter is tried.
MAX_DELIVERY_TIME = timedelta(days=1)


class DeliveryStatus(StrEnum):
    """Where a letter stands."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class RetryDecision(NamedTuple):
    status: DeliveryStatus
    #: When it is tried again, if it is.
    due_at: datetime


def decide_retry(letter: WebhookMessage, outcome: DeliveryOutcome, chance: float) -> RetryDecision:
    """What becomes of a letter after this attempt; `chance` is from 0 to 1."""
    if outcome.error is None:
        return RetryDecision(DeliveryStatus.DELIVERED, letter.now)
    due_at = letter.now + backoff(letter.attempt, chance)
    if outcome.final or due_at > letter.expires_at:
        return RetryDecision(DeliveryStatus.GIVEN_UP, letter.now)
    return RetryDecision(DeliveryStatus.WAITING, due_at)


def backoff(attempt: int, chance: float) -> timedelta:
    """How long to wait after the attempt with this number.

    >>> [backoff(n, 0.5).total_seconds() for n in (1, 2, 3, 9)]
    [5.0, 15.0, 45.0, 14400.0]
    """
    grown = FIRST_BACKOFF * int(FACTOR ** min(attempt - 1, MAX_EXPONENT))
    return min(grown, MAX_BACKOFF) * (1 - JITTER + 2 * JITTER * chance)
