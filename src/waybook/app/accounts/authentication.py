"""Authentication of callers by API token, access token of the issuer, or web session.

Credentials are checked on every request, so that a revocation takes effect immediately in every
process.
"""

import logging
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from waybook.accounts.manage import NewUser
from waybook.accounts.model import PREFIX, hash_token
from waybook.app.accounts.lookup import TokenCache, authenticate_token, find_by_secret
from waybook.app.accounts.members import add_user
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel, Scope, expand_scopes
from waybook.core.org_codes import SECRET_LENGTH, with_org, without_org
from waybook.errors import Forbidden, InvalidInput, Unauthenticated
from waybook.integrations.oidc_login import (
    Claims,
    IssuedIdentity,
    IssuerClient,
    check_times,
    identity_from_claims,
)
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import Member, SessionUser
from waybook.store.driver.database import Database
from waybook.store.driver.queries import first_value, new_uuid

log = logging.getLogger(__name__)

SIGN_IN_ACTOR = "sign-in"


async def authenticate_bearer(
    services: Services,
    issuer: IssuerClient | None,
    secret: str,
    channel: Channel,
    cache: TokenCache | None = None,
) -> Caller:
    """Return the caller for a bearer secret: an API token, or an access token of the issuer.

    Raises:
        Unauthenticated: the secret is not valid; only the log contains the reason.
        Unavailable: the issuer's token cannot be checked now.
        Forbidden: the secret is valid, but grants no scope.
    """
    if issuer is None or secret.startswith(PREFIX):
        return await authenticate_token(services, secret, channel, cache)
    try:
        return await authenticate_issuer_token(services, issuer, secret, channel)
    except Unauthenticated as error:
        log.info("an access token was refused: %s", error.message)
        raise Unauthenticated from None


async def authenticate_issuer_token(
    services: Services, issuer: IssuerClient, text: str, channel: Channel
) -> Caller:
    """Return the caller whom the issuer's access token identifies.

    Raises:
        Unauthenticated: the token is not valid. Unavailable: the token cannot be checked now.
            Forbidden: the token is valid, but grants no scope.
    """
    now = await database_time(services)
    claims = await issuer.claims(text, audience=issuer.settings.audience, now=now)
    who = identity_from_claims(claims, issuer.settings)
    member = await find_or_create_member(services, issuer, claims, channel)
    scopes = expand_scopes(who.scopes) & expand_scopes(map(Scope, member.scopes))
    if not scopes:
        raise Forbidden(
            f"this access token has no Waybook scope; request one of: {', '.join(Scope)}",
            needed=[str(scope) for scope in Scope],
            granted=[],
        )
    return Caller(
        org_id=member.org_id,
        user=member.name,
        channel=channel,
        scopes=scopes,
        # The credential does not contain the person's id at the issuer, because erasing the user
        # would not remove it.
        credential=f"client:{who.client}:{member.user_id}",
    )


async def find_or_create_member(
    services: Services, issuer: IssuerClient, claims: Claims, channel: Channel
) -> Member:
    """Return the user for an identity. The first sign-in creates the user, if that is allowed.

    Raises:
        Unauthenticated: there is no such org, or the user may not sign in.
    """
    who = identity_from_claims(claims, issuer.settings)
    member = await _look(services, issuer, who)
    check_times(claims, member.now)
    if member.user_id is None:
        await _let_in(services, issuer, who, member.org_id, channel)
        member = await _look(services, issuer, who)
    if member.user_id is None or member.is_disabled:
        raise Unauthenticated("the user is disabled")
    return member


async def database_time(services: Services) -> datetime:
    """Return the database time, estimated from an earlier reply if possible."""
    now = services.database.now()
    if now is None:
        (rows,) = await services.database.read_global("select app_now()")
        now = first_value(rows)
    return now


async def _look(services: Services, issuer: IssuerClient, who: IssuedIdentity) -> Member:
    rows = await _member_rows(services.database, issuer, who)
    if not rows:
        raise Unauthenticated("the org that the token names does not exist")
    return rows[0]


async def _member_rows(
    database: Database, issuer: IssuerClient, who: IssuedIdentity
) -> list[Member]:
    """Read the org and the user."""
    if not await database.is_cluster():
        statements = accounts.member_statements(who.org, issuer.settings.issuer, who.subject)
        return (await database.read_by_slug(who.org, *statements))[-1]
    orgs = await database.list_org_ids(accounts.SQL["org_of_slug"](slug=who.org))
    if not orgs:
        return []
    statement = accounts.SQL["member_of_org"](issuer=issuer.settings.issuer, subject=who.subject)
    (rows,) = await database.read_org(orgs[0], statement)
    return rows


async def _let_in(
    services: Services,
    issuer: IssuerClient,
    who: IssuedIdentity,
    org_id: UUID,
    channel: Channel,
) -> None:
    """Create the user in the org. If the name is taken, the user's id at the issuer is added."""
    scopes = issuer.settings.new_user_scopes
    if scopes is None:
        raise Unauthenticated("the user is not registered in the org, and oidc_new_users is deny")
    doorkeeper = Caller(
        org_id=org_id,
        user=SIGN_IN_ACTOR,
        channel=channel,
        scopes=frozenset({Scope.ADMIN}),
        credential=f"issuer:{issuer.settings.issuer}",
    )
    call = RequestContext(services=services, caller=doorkeeper)
    for name in (who.name, f"{who.name[:80]} ({who.subject[:100]})"):
        new = NewUser(
            name=name,
            scopes=tuple(scopes),
            email=who.email,
            issuer=issuer.settings.issuer,
            subject=who.subject,
        )
        try:
            await add_user(call, new)
        except InvalidInput:
            # The name is taken, or a concurrent sign-in has already created the user.
            if (await _look(services, issuer, who)).user_id is not None:
                return
            continue
        return


_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class _SignedInUser:
    """A user who signed in with a browser."""

    caller: Caller
    person: SessionUser


@dataclass(frozen=True, slots=True)
class _StartedSession:
    """A new web session. Only the browser stores its secret."""

    secret: str = field(repr=False)
    caller: Caller


async def start_by_token(services: Services, token: str) -> _StartedSession:
    caller = await authenticate_token(services, token, Channel.DASHBOARD)
    secret, token_id = (
        secrets.token_urlsafe(_SECRET_BYTES),
        str(caller.credential).partition(":")[2],
    )
    async with services.database.org_transaction(caller.org_id) as tx:
        await tx.commit(
            accounts.SQL["insert_session_by_token"](
                id=new_uuid(), hash=hash_token(secret), token_id=token_id
            )
        )
    return await _started(services, secret, caller)


async def start_by_issuer(
    services: Services, issuer: IssuerClient, claims: Claims
) -> _StartedSession:
    """Start a web session for a user whom the issuer has just authenticated.

    Raises:
        Unauthenticated: the user may not sign in.
        Forbidden: the user has no scope.
    """
    member = await find_or_create_member(services, issuer, claims, Channel.DASHBOARD)
    if not member.scopes:
        raise Forbidden("you have no permissions in this org; ask your administrator")
    secret, session_id = secrets.token_urlsafe(_SECRET_BYTES), new_uuid()
    started = accounts.SQL["insert_session"](
        id=session_id, user_id=member.user_id, hash=hash_token(secret)
    )
    async with services.database.org_transaction(member.org_id) as tx:
        await tx.commit(started)
    caller = Caller(
        org_id=member.org_id,
        user=member.name,
        channel=Channel.DASHBOARD,
        scopes=expand_scopes(map(Scope, member.scopes)),
        credential=f"session:{session_id}",
    )
    return await _started(services, secret, caller)


async def _started(services: Services, secret: str, caller: Caller) -> _StartedSession:
    is_cluster = await services.database.is_cluster()
    return _StartedSession(with_org(secret, caller.org_id) if is_cluster else secret, caller)


async def authenticate_session(
    services: Services, secret: str, *, notes: bool = True
) -> _SignedInUser:
    """Return the user of a web session. With `notes`, record that the session was used.

    Raises:
        Unauthenticated: the session has ended or never existed.
    """
    if len(without_org(secret)) != SECRET_LENGTH or not secret.isascii():
        raise Unauthenticated
    people = await find_by_secret(services.database, secret, accounts.by_session_statements)
    person: SessionUser | None = people[0] if people else None
    if person is None or not person.scopes:
        raise Unauthenticated
    if person.record_use and notes:
        async with services.database.org_transaction(person.org_id) as tx:
            await tx.commit(accounts.SQL["session_seen"](id=person.session_id))
    kind, key = ("token", person.token_id) if person.token_id else ("session", person.session_id)
    caller = Caller(
        org_id=person.org_id,
        user=person.name,
        channel=Channel.DASHBOARD,
        scopes=person.scopes,
        credential=f"{kind}:{key}",
    )
    return _SignedInUser(caller, person)


async def end_session(services: Services, secret: str) -> None:
    try:
        known = await authenticate_session(services, secret, notes=False)
    except Unauthenticated:
        return
    async with services.database.org_transaction(known.person.org_id) as tx:
        await tx.commit(accounts.SQL["end_session"](id=known.person.session_id))
