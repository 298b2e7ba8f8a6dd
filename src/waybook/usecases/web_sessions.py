"""Browsers that signed in: let in, known again, let go.

A session of a person who came from their issuer is a credential of its own. One that was made
with a token is that token, in another form: whoever has the token is not a person for that.
"""

import secrets
from dataclasses import dataclass, field
from typing import Final

from waybook.endpoints.issued import Claims, IssuerClient
from waybook.errors import Forbidden, Unauthenticated
from waybook.orgs.secret import hash_token
from waybook.record.moment import Channel
from waybook.record.scopes import expand_scopes
from waybook.store import web_sessions
from waybook.store.ids import new_id
from waybook.store.web_sessions import SessionUser
from waybook.usecases.by_issuer import find_or_create_member
from waybook.usecases.exchange import Caller
from waybook.usecases.house import Services
from waybook.usecases.identify import authenticate_token

#: 256 bits.
SECRET_BYTES: Final = 32
#: As long as such a secret is when it is written down.
SECRET_LENGTH: Final = 43


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """Somebody at a browser, as pages know them."""

    caller: Caller
    person: SessionUser


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A new session; the secret is the browser's, and kept nowhere else."""

    secret: str = field(repr=False)
    caller: Caller


async def start_by_token(services: Services, token: str) -> StartedSession:
    """Let in whoever shows this token.

    Raises:
        Unidentified: it does not count.
    """
    caller = await authenticate_token(services, token, Channel.DASHBOARD)
    secret, token_id = secrets.token_urlsafe(SECRET_BYTES), str(caller.credential).partition(":")[2]
    async with services.database.org_transaction(caller.org_id) as tx:
        await tx.commit(
            web_sessions.start_by_token_statement(new_id(), hash_token(secret), token_id)
        )
    return StartedSession(secret, caller)


async def start_by_issuer(
    services: Services, issuer: IssuerClient, claims: Claims
) -> StartedSession:
    """Let in whom the issuer has just told us of.

    Raises:
        Unidentified: they may not come in.
        Forbidden: they may do nothing here.
    """
    looked, member = await find_or_create_member(services, issuer, claims, Channel.DASHBOARD)
    if not member.scopes:
        raise Forbidden("you may do nothing here; ask whoever looks after this place")
    secret, session_id = secrets.token_urlsafe(SECRET_BYTES), new_id()
    started = web_sessions.start_statement(session_id, hash_token(secret), member.user_id)
    async with services.database.org_transaction(looked.org_id) as tx:
        await tx.commit(started)
    caller = Caller(
        org_id=looked.org_id,
        user=member.name,
        channel=Channel.DASHBOARD,
        scopes=expand_scopes(member.scopes),
        credential=f"session:{session_id}",
    )
    return StartedSession(secret, caller)


async def authenticate_session(
    services: Services, secret: str, *, notes: bool = True
) -> SignedInUser:
    """Whoever sits at the browser that has this secret; `notes` that they were there.

    Raises:
        Unidentified: it has ended, or never was.
    """
    if len(secret) != SECRET_LENGTH or not secret.isascii():
        raise Unauthenticated
    asked = web_sessions.by_session_statements()
    person = web_sessions.read_person(
        (await services.database.read_by_secret(hash_token(secret), *asked))[-1]
    )
    if person is None or not person.scopes:
        raise Unauthenticated
    if person.record_use and notes:
        async with services.database.org_transaction(person.org_id) as tx:
            await tx.commit(web_sessions.seen_statement(person.session_id))
    caller = Caller(
        org_id=person.org_id,
        user=person.name,
        channel=Channel.DASHBOARD,
        scopes=person.scopes,
        credential=_credential(person),
    )
    return SignedInUser(caller, person)


async def end_session(services: Services, secret: str) -> None:
    """Let a browser go; one that is unknown is gone already."""
    try:
        known = await authenticate_session(services, secret, notes=False)
    except Unauthenticated:
        return
    async with services.database.org_transaction(known.person.org_id) as tx:
        await tx.commit(web_sessions.end_statement(known.person.session_id))


def _credential(person: SessionUser) -> str:
    return f"token:{person.token_id}" if person.token_id else f"session:{person.session_id}"
