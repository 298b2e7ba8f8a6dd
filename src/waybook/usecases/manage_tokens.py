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
from waybook.orgs.secret import hash_of, spelled
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.usecases.call import Call, known
from waybook.usecases.held_org import held_org
from waybook.usecases.manage_users import meant_user

#: How long a token counts unless somebody says otherwise.
USUAL_DAYS: Final = 90
#: What an agent's token can do unless somebody says otherwise: work, and decide nothing.
USUAL_SCOPES: Final = (Scope.PLAN_WRITE, Scope.RUN_WRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedToken:
    user: str
    label: str
    scopes: tuple[Scope, ...] = USUAL_SCOPES
    #: None is for ever.
    days: int | None = USUAL_DAYS


@dataclass(frozen=True, slots=True)
class GivenToken:
    """A new token, with its secret, which is told this once."""

    user: User
    token: Token
    secret: str


async def add_token(call: Call, asked: AskedToken) -> GivenToken:
    """Give a user a token.

    Raises:
        Forbidden: the caller does not look after the org, or the user may not do as much.
        NotFound: there is no such user.
        InvalidInput: the token would do nothing, or has no name.
    """
    secret = spelled(secrets.choice)
    async with held_org(call, identities.user_statement(asked.user)) as held:
        user = meant_user(held.found[0], asked.user)
        lasts = None if asked.days is None else held.now + timedelta(days=asked.days)
        new = NewToken(
            label=asked.label, hash=hash_of(secret).hex(), scopes=asked.scopes, expires_at=lasts
        )
        token, entry = add(user, new, held.moment)
        await held.write(entry)
    return GivenToken(user, token, secret)


async def revoke_token(call: Call, token_id: str) -> Token:
    """Let a token count no more: from the next request on, in every process.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is no such token.
        IllegalMove: it is revoked already.
    """
    asked = identities.SQL["token"](id=known(token_id))
    async with held_org(call, asked) as held:
        found = identities.read_tokens(held.found[0])
        if not found:
            raise NotFound("there is no token with this id in this org")
        token, entry = revoke(found[0].token, held.moment)
        await held.write(entry)
    return token
