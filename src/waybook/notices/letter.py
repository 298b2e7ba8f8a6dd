"""A notice on its way: what is to be delivered, who delivers it, and what came of it."""

from datetime import datetime
from typing import NamedTuple, Protocol

from waybook.record.moment import Json


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
