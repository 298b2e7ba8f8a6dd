"""A notice on its way: what is to be delivered, who delivers it, and what came of it.

When a letter that was not taken is tried again, and when it is given up.

Signatures by which a receiver knows a letter is ours, in the format of Standard Webhooks.

Signed are the id, the time of the attempt and the body, joined by full stops, with HMAC-SHA256.
See https://www.standardwebhooks.com.
"""

import base64
import binascii
import hmac
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from waybook.errors import Misconfigured
from waybook.json_values import Json


class WebhookMessage(NamedTuple):
    """A notice, as it is kept until it has been delivered."""

    #: The same at every attempt, so that whoever gets it twice can tell.
    id: str
    event: str
    data: dict[str, Json]
    #: When it happened.
    at: datetime
    #: When this attempt is made.
    now: datetime
    attempt: int
    #: When it is given up, if nobody has taken it.
    expires_at: datetime


class DeliveryOutcome(NamedTuple):
    """What came of an attempt: a fault, or none."""

    error: str | None = None
    #: The status of the answer, if there was one.
    status: int | None = None
    #: Whether it is no use to try again.
    final: bool = False


class WebhookSender(Protocol):
    """Whoever delivers letters."""

    async def deliver(self, letter: WebhookMessage) -> DeliveryOutcome:
        """Try once; whatever happens is an outcome."""


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


PREFIX = "whsec_"
#: What the format asks of a secret, in bytes.
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """The secrets in a setting: one, or while one takes the place of another, both.

    Raises:
        Misconfigured: one of them is not in the format.
    """
    return tuple(_secret(word) for word in text.split())


def _secret(word: str) -> bytes:
    try:
        secret = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        secret = b""
    if not word.startswith(PREFIX) or not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise Misconfigured(
            f"webhook_secret must be {PREFIX} and the base64 of {MIN_SECRET_BYTES} to "
            f"{MAX_SECRET_BYTES} random bytes; make one with: echo whsec_$(openssl rand -base64 32)"
        )
    return secret


def signature_headers(
    letter_id: str, at: int, body: bytes, secrets: tuple[bytes, ...]
) -> dict[str, str]:
    """The headers of an attempt at this second; with no secret it is not signed."""
    content = f"{letter_id}.{at}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in secrets]
    headers = {"webhook-id": letter_id, "webhook-timestamp": str(at)}
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{told}" for told in signatures)
    return headers
