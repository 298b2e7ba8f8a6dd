"""Who may come into an org, and by what."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from waybook.orgs.model import Org, Token, User
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.store.identities import Used
from waybook.usecases.call import Call
from waybook.usecases.permission import require

MOST_USERS: Final = 1_000
MOST_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    org: Org
    users: list[User]
    tokens: list[Used]
    now: datetime

    @property
    def counting(self) -> list[Used]:
        """The tokens that count, as far as they themselves can tell."""
        return [one for one in self.tokens if counts(one.token, self.now)]


def counts(token: Token, now: datetime) -> bool:
    """Whether a token is neither revoked nor expired."""
    expired = token.expires_at is not None and token.expires_at <= now
    return token.revoked_at is None and not expired


async def list_members(call: Call) -> Members:
    """The org, its users and their tokens, those that count first.

    Raises:
        Forbidden: the caller does not look after the org.
    """
    require(call.caller, Scope.ADMIN, "seeing users and tokens")
    org, users, tokens, now = await call.read(
        identities.SQL["org"](),
        identities.SQL["users"](most=MOST_USERS),
        identities.SQL["tokens"](most=MOST_TOKENS),
        "select app_now()",
    )
    return Members(
        org=identities.read_org(org).org,
        users=identities.read_users(users),
        tokens=identities.read_tokens(tokens),
        now=now[0][0].astimezone(UTC),
    )
