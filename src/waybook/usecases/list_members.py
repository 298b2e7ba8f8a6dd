"""Who may come into an org, and by what."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from waybook.orgs.model import Org, Token, User
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.store.identities import TokenUse
from waybook.usecases.call import RequestContext
from waybook.usecases.permission import require_scope

MAX_USERS: Final = 1_000
MAX_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    org: Org
    users: list[User]
    tokens: list[TokenUse]
    now: datetime

    @property
    def active_tokens(self) -> list[TokenUse]:
        """The tokens that count, as far as they themselves can tell."""
        return [one for one in self.tokens if is_active(one.token, self.now)]


def is_active(token: Token, now: datetime) -> bool:
    """Whether a token is neither revoked nor expired."""
    expired = token.expires_at is not None and token.expires_at <= now
    return token.revoked_at is None and not expired


async def list_members(ctx: RequestContext) -> Members:
    """The org, its users and their tokens, those that count first.

    Raises:
        Forbidden: the caller does not look after the org.
    """
    require_scope(ctx.caller, Scope.ADMIN, "seeing users and tokens")
    org, users, tokens, now = await ctx.read(
        identities.SQL["org"](),
        identities.SQL["users"](most=MAX_USERS),
        identities.SQL["tokens"](most=MAX_TOKENS),
        "select app_now()",
    )
    return Members(
        org=identities.read_org(org).org,
        users=identities.read_users(users),
        tokens=identities.read_tokens(tokens),
        now=now[0][0].astimezone(UTC),
    )
