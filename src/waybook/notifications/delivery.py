"""Signs webhook messages, schedules their retries, and creates the secrets of action links.

Signatures follow Standard Webhooks (https://www.standardwebhooks.com). The secret of an action link
is computed from the message id and the webhook secret, so it is never stored.
"""

import base64
import binascii
import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from waybook.core.events import NotificationKind
from waybook.core.org_codes import CODE_LENGTH, SECRET_LENGTH, with_org
from waybook.errors import Misconfigured
from waybook.json_values import Json


class WebhookMessage(NamedTuple):
    """A notification that is stored until its delivery succeeds or is given up."""

    #: Id of the message. It stays the same when a delivery is retried, so that the receiver can
    #: recognize duplicates.
    id: str
    event: str
    data: dict[str, Json]
    at: datetime
    now: datetime
    attempt: int
    expires_at: datetime


class DeliveryOutcome(NamedTuple):
    """Result of one try to deliver a message. Without an `error`, the message was delivered."""

    error: str | None = None
    status: int | None = None
    final: bool = False


class WebhookSender(Protocol):
    async def deliver(self, message: WebhookMessage) -> DeliveryOutcome: ...


_FIRST_BACKOFF = timedelta(seconds=5)
MAX_BACKOFF = timedelta(hours=4)
_FACTOR = 3
#: Each delay is changed at random by up to this share, so that not all retries are at the same
#: time.
_JITTER = 0.2
_MAX_EXPONENT = 12

MAX_DELIVERY_TIME = timedelta(days=1)


class DeliveryStatus(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


def decide_retry(
    message: WebhookMessage, outcome: DeliveryOutcome, chance: float
) -> tuple[DeliveryStatus, datetime]:
    """Decide whether to send a message again, and when. The random `chance` varies the delay."""
    if outcome.error is None:
        return DeliveryStatus.DELIVERED, message.now
    due_at = message.now + backoff(message.attempt, chance)
    if outcome.final or due_at > message.expires_at:
        return DeliveryStatus.GIVEN_UP, message.now
    return DeliveryStatus.WAITING, due_at


def backoff(attempt: int, chance: float) -> timedelta:
    """Return how long to wait after the failed delivery number `attempt`.

    >>> [backoff(n, 0.5).total_seconds() for n in (1, 2, 3, 9)]
    [5.0, 15.0, 45.0, 14400.0]
    """
    grown = _FIRST_BACKOFF * int(_FACTOR ** min(attempt - 1, _MAX_EXPONENT))
    return min(grown, MAX_BACKOFF) * (1 - _JITTER + 2 * _JITTER * chance)


PREFIX = "whsec_"
#: Lengths of a secret that the Standard Webhooks format allows.
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """Parse the signing secrets in a setting: one secret, or two during a rotation."""
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
    message_id: str, at: int, body: bytes, secrets: tuple[bytes, ...]
) -> dict[str, str]:
    """Return the headers that identify a message and sign its body with each secret."""
    content = f"{message_id}.{at}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in secrets]
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at)}
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers


class WebhookFormat(StrEnum):
    #: Format of the Standard Webhooks specification, for receivers that are programs.
    STANDARD = "standard"
    #: Format of Slack's incoming webhooks, which other chat systems accept too.
    SLACK = "slack"
    TEXT = "text"


ACTION_PATH: Final = "/act"
FEEDBACK_ACTION: Final = "feedback"
LINKED_ACTIONS: Final = MappingProxyType(
    {
        NotificationKind.REVIEW_REQUESTED: ("approve", "modify", "reject"),
        NotificationKind.REVIEW_OVERDUE: ("approve", "modify", "reject"),
        NotificationKind.AWAITING_FEEDBACK: (FEEDBACK_ACTION,),
    }
)
#: The same key also signs messages. With this prefix, a link secret never equals a signature.
_PURPOSE: Final = b"waybook action link "
_SECRET: Final = re.compile(
    rf"[A-Za-z0-9_-]{{{SECRET_LENGTH}}}([A-Za-z0-9]{{{CODE_LENGTH}}})?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLinks:
    """Settings for the links with which a person can act directly from a message."""

    key: bytes = field(repr=False)
    reviewer: str
    lifetime: timedelta
    needs_account: bool

    def secret(self, message_id: str) -> str:
        """Return the secret of the action links in the message with this id.

        >>> links = ActionLinks(
        ...     key=b"k", reviewer="ann", lifetime=timedelta(days=7), needs_account=True
        ... )
        >>> len(links.secret("1")), links.secret("1") == links.secret("2")
        (43, False)
        """
        digest = hmac.digest(self.key, _PURPOSE + message_id.encode(), "sha256")
        return urlsafe_b64encode(digest).decode().rstrip("=")

    def urls(
        self, kind: NotificationKind, message_id: str, base_url: str, org_id: UUID | None = None
    ) -> dict[str, Json]:
        """Return the action links of a message of this kind: the URLs by the names of actions."""
        secret = self.secret(message_id)
        if org_id is not None:
            secret = with_org(secret, org_id)
        return {name: f"{base_url}{ACTION_PATH}/{secret}/{name}" for name in LINKED_ACTIONS[kind]}


def looks_like_secret(text: str) -> bool:
    """Return whether a text has the form of the secret in an action link.

    >>> looks_like_secret("a" * 43), looks_like_secret("a" * 42), looks_like_secret("é" * 43)
    (True, False, False)
    """
    return _SECRET.fullmatch(text) is not None
