"""Action links, with which a person can act directly from a message.

The secret of a link is computed from the message id and the webhook secret, so it is never stored.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

from waybook.core.events import NotificationKind
from waybook.core.org_codes import CODE_LENGTH, SECRET_LENGTH, with_org
from waybook.json_values import Json

ACTION_PATH: Final = "/act"
FEEDBACK_ACTION: Final = "feedback"
LINKED_ACTIONS: Final = MappingProxyType(
    {
        NotificationKind.REVIEW_REQUESTED: ("approve", "modify", "reject"),
        NotificationKind.REVIEW_OVERDUE: ("approve", "modify", "reject"),
        NotificationKind.AWAITING_FEEDBACK: (FEEDBACK_ACTION,),
    }
)
#: This prefix keeps link secrets different from message signatures, which use the same key.
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
        """Return the URL for each action that a message links to."""
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
