"""Administration of orgs: their settings, users and API tokens.

Every function raises `Forbidden` unless the caller administers the org.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from waybook.accounts import model as rules
from waybook.accounts.model import NewUser, Org, Token, TokenUse, User, generate_token, hash_token
from waybook.app.request.caller import require_scope
from waybook.app.request.locks.locking import Locked, Proposal, Written
from waybook.app.request.request_context import RequestContext, uuid_or_nil
from waybook.core.changes import Entry
from waybook.core.decision_context import DecisionContext, ReviewPolicy, Scope
from waybook.core.org_codes import with_org
from waybook.errors import InvalidInput, NotFound
from waybook.store.accounts import accounts
from waybook.store.driver.connection import KeyConflict, Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, first_value


class LockedOrg(Locked[tuple[Entry, ...]]):
    """The caller's org, locked while its users and tokens change."""

    org: Org
    #: The org after the change. None if only users and tokens change.
    changed_org: Org | None = None

    def __init__(
        self, ctx: RequestContext, *more: Statement, needs: Scope | None = Scope.ADMIN
    ) -> None:
        if needs is not None:
            require_scope(ctx.caller, needs, "changing users and tokens")
        lock = (accounts.SQL["lock_org"](), accounts.SQL["last_entry_of_org"]())
        super().__init__(ctx, *lock, *more)

    async def read(self, results: Results, tx: Transaction) -> None:
        await super().read(results, tx)
        rows, last, *self.results = self.results
        self.org, self.head = accounts.read_org(rows, last)
        self.now = self.head.after(self.now)

    def written(self, proposal: Proposal[tuple[Entry, ...]]) -> Written:
        entries, org = proposal.decision, self.changed_org or self.org
        if not self.head.seq:  # The first audit entry of an org records the org itself.
            entries = (rules.record_org(self.org, self.context), *entries)
        return Written(accounts.statements(org, entries, self.write_context))


async def change_org(
    ctx: RequestContext, *, name: str | None = None, policy: ReviewPolicy | None = None
) -> Org:
    async with LockedOrg(ctx) as locked:
        context = locked.context
        org, entry = rules.change_org(locked.org, context, name=name, policy=policy)
        if entry is not None:
            locked.changed_org = org
            await locked.write((entry,))
        return org


async def start_org_audit(ctx: RequestContext) -> None:
    async with LockedOrg(ctx) as locked:
        if not locked.head.seq:
            await locked.write(())


async def add_user(ctx: RequestContext, new: NewUser) -> User:
    async with LockedOrg(ctx) as locked:
        user, entry = rules.add_user(new, locked.context)
        try:
            await locked.write((entry,))
        except KeyConflict:
            message = f"there is already a user {user.name}; choose another name"
            raise InvalidInput(message, argument="name") from None
    return user


async def disable_user(ctx: RequestContext, name: str) -> User:
    """Disable a user. All credentials of the user are rejected from now on."""
    return await _change_user(ctx, name, rules.disable_user)


async def enable_user(ctx: RequestContext, name: str) -> User:
    return await _change_user(ctx, name, rules.enable_user)


async def change_scopes(ctx: RequestContext, name: str, scopes: tuple[Scope, ...]) -> User:
    """Set the scopes of a user. These scopes limit all credentials of the user."""
    return await _change_user(ctx, name, lambda user, now: rules.change_scopes(user, scopes, now))


async def _change_user(
    ctx: RequestContext,
    name: str,
    rule: Callable[[User, DecisionContext], tuple[User, Entry | None]],
) -> User:
    async with LockedOrg(ctx, accounts.SQL["user_by_name"](name=name)) as locked:
        user, entry = rule(_require_user(locked.results[0], name), locked.context)
        if entry is not None:
            await locked.write((entry,))
    return user


def _require_user(rows: list[User], name: str) -> User:
    users = accounts.read_users(rows)
    if not users:
        raise NotFound(f"there is no user {name} in this org")
    return users[0]


DEFAULT_DAYS: Final = 90
DEFAULT_SCOPES: Final = (Scope.PLAN_WRITE, Scope.RUN_WRITE)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new API token. Its secret is shown only once."""

    user: User
    token: Token
    secret: str


async def add_token(
    ctx: RequestContext,
    user_name: str,
    label: str,
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES,
    *,
    days: int | None = DEFAULT_DAYS,
) -> IssuedToken:
    """Create an API token for a user.

    Raises:
        Forbidden: the caller does not administer the org, or the user lacks one of the scopes.
    """
    secret = generate_token(secrets.choice)
    async with LockedOrg(ctx, accounts.SQL["user_by_name"](name=user_name)) as locked:
        user = _require_user(locked.results[0], user_name)
        token, entry = rules.add_token(
            user,
            locked.context,
            label=label,
            secret_hash=hash_token(secret).hex(),
            scopes=scopes,
            expires_at=None if days is None else locked.now + timedelta(days=days),
        )
        await locked.write((entry,))
    if await ctx.services.database.is_cluster():
        secret = with_org(secret, ctx.caller.org_id)
    return IssuedToken(user, token, secret)


async def revoke_token(ctx: RequestContext, token_id: str) -> Token:
    """Revoke an API token. Every server process rejects it from the next request on."""
    statement = accounts.SQL["token"](id=uuid_or_nil(token_id))
    async with LockedOrg(ctx, statement) as locked:
        tokens = accounts.read_tokens(locked.results[0])
        if not tokens:
            raise NotFound("there is no token with this id in this org")
        token, entry = rules.revoke_token(tokens[0].token, locked.context)
        await locked.write((entry,))
    return token


_MAX_USERS: Final = 1_000
MAX_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    org: Org
    users: list[User]
    tokens: list[TokenUse]
    now: datetime

    @property
    def active_tokens(self) -> list[TokenUse]:
        return [token_use for token_use in self.tokens if is_active(token_use.token, self.now)]


def is_active(token: Token, now: datetime) -> bool:
    expired = token.expires_at is not None and token.expires_at <= now
    return token.revoked_at is None and not expired


async def list_members(ctx: RequestContext) -> _Members:
    """Return the org, its users and their tokens, valid tokens first."""
    require_scope(ctx.caller, Scope.ADMIN, "seeing users and tokens")
    org, users, tokens, now = await ctx.read(
        accounts.SQL["org"](),
        accounts.SQL["users"](most=_MAX_USERS),
        accounts.SQL["tokens"](most=MAX_TOKENS),
        "select app_now()",
    )
    return _Members(
        org=accounts.read_org(org)[0],
        users=accounts.read_users(users),
        tokens=accounts.read_tokens(tokens),
        now=first_value(now),
    )
