"""Authenticates callers by API token, access token of the identity provider, or web session.

In the code, `issuer` means the identity provider.

Credentials are checked on every request, so that a revocation takes effect immediately in every
process.
"""

import logging
import secrets
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
from waybook.store.accounts.accounts import SessionUser
from waybook.store.driver.queries import Query, Row, first_value, new_uuid

log = logging.getLogger(__name__)

SIGN_IN_ACTOR = "sign-in"


async def authenticate_bearer(
    services: Services,
    issuer: IssuerClient | None,
    secret: str,
    channel: Channel,
    cache: TokenCache | None = None,
) -> Caller:
    """Return the caller who presents `secret`: an API token, or an access token of the issuer.

    Raises:
        Unauthenticated: the token is not valid; only the log contains the reason.
        Unavailable: the access token cannot be checked now.
        Forbidden: the access token is valid, but grants no scope.
    """
    if issuer is None or secret.startswith(PREFIX):
        return await authenticate_token(services, secret, channel, cache)
    try:
        now = await database_time(services)
        claims = await issuer.claims(secret, audience=issuer.settings.audience, now=now)
        who = identity_from_claims(claims, issuer.settings)
        member = await find_or_create_member(services, issuer, claims, channel)
    except Unauthenticated as error:
        log.info("an access token was refused: %s", error.message)
        raise Unauthenticated from None
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
        # The credential is stored with reviews and stays there when the user is erased, so it must
        # not contain the person's id at the issuer.
        credential=f"client:{who.client}:{member.user_id}",
    )


async def find_or_create_member(
    services: Services, issuer: IssuerClient, claims: Claims, channel: Channel
) -> Row:
    """Return the user whom the claims of an issuer's token identify.

    A user who signs in for the first time is created, if the settings allow this.

    Raises:
        Unauthenticated: the org does not exist, or the user may not sign in.
    """
    who = identity_from_claims(claims, issuer.settings)
    member = await _read_member(services, issuer, who)
    check_times(claims, member.now)
    if member.user_id is None:
        await _create_member(services, issuer, who, member.org_id, channel)
        member = await _read_member(services, issuer, who)
    if member.user_id is None or member.is_disabled:
        raise Unauthenticated("the user is disabled")
    return member


async def database_time(services: Services) -> datetime:
    """Return the database's current time: estimated from its last reply, or else queried."""
    now = services.database.now()
    if now is None:
        (rows,) = await services.database.read_global("select app_now()")
        now = first_value(rows)
    return now


async def _read_member(services: Services, issuer: IssuerClient, who: IssuedIdentity) -> Row:
    """Return the row of the org and the user. Its `user_id` is null if the user is new."""
    database = services.database
    identity = {"issuer": issuer.settings.issuer, "subject": who.subject}
    rows: list[Row] = []
    if not await database.is_cluster():
        *_, rows = await database.read_by_slug(
            who.org,
            accounts.SQL["name_org_by_slug"](slug=who.org),
            accounts.SQL["close_directory"](),
            accounts.SQL["member"](**identity),
        )
    elif orgs := await database.list_org_ids(accounts.SQL["org_of_slug"](slug=who.org)):
        statement = accounts.SQL["member_of_org"](**identity)
        (rows,) = await database.read_org(orgs[0], statement)
    if not rows:
        raise Unauthenticated("the org that the token names does not exist")
    return rows[0]


async def _create_member(
    services: Services, issuer: IssuerClient, who: IssuedIdentity, org_id: UUID, channel: Channel
) -> None:
    """Create the user in the org.

    If another user has the same name, the person's id at the issuer is added to the name.
    """
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
            # Another user has the name, or a concurrent sign-in has created this user.
            if (await _read_member(services, issuer, who)).user_id is not None:
                return
            continue
        return


_SECRET_BYTES: Final = 32


async def start_by_token(services: Services, token: str) -> str:
    """Start a web session for the user of an API token. Return the secret of the session."""
    caller = await authenticate_token(services, token, Channel.DASHBOARD)
    token_id = str(caller.credential).partition(":")[2]
    query = accounts.SQL["insert_session_by_token"]
    return await _start_session(services, caller.org_id, query, token_id=token_id)


async def start_by_issuer(services: Services, issuer: IssuerClient, claims: Claims) -> str:
    """Start a web session for a user whom the issuer has just authenticated.

    Return the secret of the session.

    Raises:
        Unauthenticated: the user may not sign in.
        Forbidden: the user has no scope.
    """
    member = await find_or_create_member(services, issuer, claims, Channel.DASHBOARD)
    if not member.scopes:
        raise Forbidden("you have no permissions in this org; ask your administrator")
    query = accounts.SQL["insert_session"]
    return await _start_session(services, member.org_id, query, user_id=member.user_id)


async def _start_session(
    services: Services, org_id: UUID, query: Query, **owner: str | None
) -> str:
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    statement = query(id=new_uuid(), hash=hash_token(secret), **owner)
    async with services.database.org_transaction(org_id) as tx:
        await tx.commit(statement)
    return with_org(secret, org_id) if await services.database.is_cluster() else secret


async def authenticate_session(
    services: Services, secret: str, *, notes: bool = True
) -> tuple[Caller, SessionUser]:
    """Return the caller and the user of a web session.

    If `notes` is true, record that the session was used.

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
    return caller, person


async def end_session(services: Services, secret: str) -> None:
    try:
        _, person = await authenticate_session(services, secret, notes=False)
    except Unauthenticated:
        return
    async with services.database.org_transaction(person.org_id) as tx:
        await tx.commit(accounts.SQL["end_session"](id=person.session_id))
