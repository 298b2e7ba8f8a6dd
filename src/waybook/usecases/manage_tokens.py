"""Tokens of an org: made, shown once, revoked."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from waybook.errors import NotFound
from waybook.orgs.manage import NewToken
from waybook.orgs.manage import add_token as add
from waybook.orgs.manage import revoke_token as revoke
from waybook.orgs.model import Token, User
from waybook.orgs.secret import generate_token, hash_token
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.held_org import lock_org
from waybook.usecases.manage_users import require_user

#: How long a token counts unless somebody says otherwise.
DEFAULT_DAYS: Final = 90
#: What an agent's token can do unless somebody says otherwise: work, and decide nothing.
DEFAULT_SCOPES: Final = (Scope.PLAN_WRITE, Scope.RUN_WRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    user: str
    label: str
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES
    #: None is for ever.
    days: int | None = DEFAULT_DAYS


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, with its secret, which is told this once."""

    user: User
    token: Token
    secret: str


async def add_token(ctx: RequestContext, asked: TokenRequest) -> IssuedToken:
    """Give a user a token.

    Raises:
        Forbidden: the caller does not look after the org, or the user may not do as much.
        NotFound: there is no such user.
        InvalidInput: the token would do nothing, or has no name.
    """
    secret = generate_token(secrets.choice)
    async with lock_org(ctx, identities.user_statement(asked.user)) as locked:
        user = require_user(locked.results[0], asked.user)
        lasts = None if asked.days is None else locked.now + timedelta(days=asked.days)
        new = NewToken(
            label=asked.label, hash=hash_token(secret).hex(), scopes=asked.scopes, expires_at=lasts
        )
        token, entry = add(user, new, locked.decision_context)
        await locked.write(entry)
    return IssuedToken(user, token, secret)


async def revoke_token(ctx: RequestContext, token_id: str) -> Token:
    """Let a token count no more: from the next request on, in every process.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is no such token.
        IllegalMove: it is revoked already.
    """
    asked = identities.SQL["token"](id=id_or_nil(token_id))
    async with lock_org(ctx, asked) as locked:
        found = identities.read_tokens(locked.results[0])
        if not found:
            raise NotFound("there is no token with this id in this org")
        token, entry = revoke(found[0].token, locked.decision_context)
        await locked.write(entry)
    return token
