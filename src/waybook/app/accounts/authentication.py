"""Authenticates callers by API token, access token of the identity provider, or web session.

In the code, `issuer` means the identity provider.

Credentials are checked on every request, so that a revocation takes effect immediately in every
process.
"""

import difflib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from waybook.accounts.model import (
    LOCAL_ORG,
    PREFIX,
    NewUser,
    OrgListItem,
    hash_token,
    looks_like_token,
)
from waybook.app.accounts.members import add_user
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel, Scope, expand_scopes
from waybook.core.org_codes import SECRET_LENGTH, org_in, with_org, without_org
from waybook.errors import Forbidden, InvalidInput, NotFound, StaleCredential, Unauthenticated
from waybook.integrations.oidc_login import (
    Claims,
    IssuedIdentity,
    IssuerClient,
    check_times,
    identity_from_claims,
)
from waybook.notifications.delivery import looks_like_secret
from waybook.store import links
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import SessionUser, TokenIdentity
from waybook.store.driver.database import CURRENT_CHECK, CredentialCheck, Database
from waybook.store.driver.queries import Query, Row, Statement, first_value, new_uuid
from waybook.store.links import AccessLink, LinkKind

__all__ = ["AccessLink", "LinkKind"]


class _SecretStatements(Protocol):
    """Function that returns SQL statements to find the row that belongs to a secret."""

    def __call__(self, *, is_org_known: bool) -> list[Statement]:
        """Return statements that search only the known org or, if it is not known, all orgs."""


async def find_by_secret(
    database: Database, secret: str, statements: _SecretStatements
) -> list[Any]:
    """Return a list with the row that belongs to a secret, or an empty list.

    If the secret contains a code that names its org, only that org is searched. Concurrent lookups
    of the same secret share one query, because many agents may use one token.
    """
    secret_hash, org_id = hash_token(secret), org_in(secret)

    async def find() -> list[Any]:
        org_rows, rows = await database.read_by_secret(
            secret_hash, *statements(is_org_known=org_id is not None), org_id=org_id
        )
        if org_rows and not rows and org_id is None and await database.is_cluster():
            _, rows = await database.read_by_secret(
                secret_hash, *statements(is_org_known=True), org_id=UUID(first_value(org_rows))
            )
        return rows

    return await database.lookups.read((secret_hash, statements), find)


MAX_TOKENS: Final = 10_000


class CachedCaller(NamedTuple):
    """Caller whose token is in the cache.

    The token may have been revoked since, so the caller is authenticated only after the database
    has confirmed `check`.
    """

    caller: Caller
    check: CredentialCheck

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Let the first database query in the block also check the token.

        The error for an invalid token is suppressed, and recorded in `check`.
        """
        previous = CURRENT_CHECK.set(self.check)
        try:
            yield
        except StaleCredential:
            self.check.is_failed = True
        finally:
            # Code after the block must not check this credential again.
            CURRENT_CHECK.reset(previous)


class TokenCache:
    def __init__(self, now: Callable[[], datetime | None], most: int = MAX_TOKENS) -> None:
        self._now = now
        self._most = most
        self._entries: OrderedDict[tuple[bytes, Channel], tuple[Caller, Statement, datetime]] = (
            OrderedDict()
        )

    def get(self, secret: str, channel: Channel) -> CachedCaller | None:
        """Return the cached caller, or None if the token must be looked up in the database."""
        entry, now = self._entries.get((hash_token(secret), channel)), self._now()
        if entry is None or now is None:
            return None
        caller, statement, recent_until = entry
        if now >= recent_until:
            return None
        return CachedCaller(caller, CredentialCheck(caller.org_id, statement))

    def put(self, secret_hash: bytes, caller: Caller, token: TokenIdentity) -> None:
        key = secret_hash, caller.channel
        statement = accounts.check_statement(token)
        self._entries.pop(key, None)
        self._entries[key] = caller, statement, token.recent_until
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def discard(self, secret_hash: bytes, channel: Channel) -> None:
        self._entries.pop((secret_hash, channel), None)


async def authenticate_token(
    services: Services, secret: str, channel: Channel, cache: TokenCache | None = None
) -> Caller:
    """Return the user of an API token as the caller, and store the caller in `cache`, if given.

    Raises:
        Unauthenticated: the secret is not a valid token; the error does not say why.
    """
    if not looks_like_token(secret):
        raise Unauthenticated
    secret_hash = hash_token(secret)
    if cache is not None:
        cache.discard(secret_hash, channel)
    bearers = await find_by_secret(services.database, secret, accounts.by_token_statements)
    if not bearers:
        raise Unauthenticated
    bearer: TokenIdentity = bearers[0]
    services.database.clock.set(bearer.now)
    if bearer.record_use:
        services.last_used.record(bearer.org_id, bearer.token_id)
    caller = Caller(
        org_id=bearer.org_id,
        user=bearer.user,
        channel=channel,
        scopes=bearer.scopes,
        credential=f"token:{bearer.token_id}",
    )
    if cache is not None:
        cache.put(secret_hash, caller, bearer)
    return caller


async def find_orgs(services: Services) -> list[OrgListItem]:
    (rows,) = await services.database.read_directory(accounts.SQL["orgs"]())
    return accounts.read_orgs(rows)


async def require_org(services: Services, slug: str) -> UUID:
    slugs = {item.org.slug: item.org.id for item in await find_orgs(services)}
    if slug not in slugs:
        near = difflib.get_close_matches(slug, slugs, 1)
        raise NotFound(f"there is no org {slug}{f'; did you mean {near[0]}?' if near else ''}")
    return UUID(slugs[slug])


#: Scopes of a person who opens the link in a message about a review or a completed stage. The
#: person can read the plan or run, and decide the review or give feedback on the stage.
_LINK_SCOPES: Final = frozenset({Scope.PLAN_READ, Scope.REVIEW})


async def find_link(services: Services, secret: str, kind: LinkKind) -> AccessLink:
    """Return the link with this secret, even if the link has expired or was revoked."""
    if not looks_like_secret(secret):
        raise Unauthenticated
    rows = await find_by_secret(services.database, secret, links.by_link_statements)
    if not rows or rows[0].kind != kind:
        raise Unauthenticated
    link: AccessLink = rows[0]
    return link


def link_reader(link: AccessLink) -> Caller:
    """Return a caller who can read the page that the link opens, and do nothing else."""
    return Caller(
        org_id=link.org_id,
        user=link.for_user,
        channel=Channel.DASHBOARD,
        scopes=frozenset({Scope.PLAN_READ}),
        credential=f"link:{link.id}",
    )


def link_decider(link: AccessLink) -> Caller:
    """Return the person for whom the link was created, as a caller who may review.

    Raises:
        Forbidden: the user is disabled or may not review.
    """
    is_local = not link.has_account and link.org_id == LOCAL_ORG
    scopes = _LINK_SCOPES if is_local else _LINK_SCOPES & link.scopes
    if Scope.REVIEW not in scopes:
        raise Forbidden(
            f"this link acts for {link.for_user}, who may not review in this org; open the plan or "
            "run and sign in as a reviewer",
            needed=[str(Scope.REVIEW)],
        )
    return Caller(
        org_id=link.org_id,
        user=link.user_name or link.for_user,
        channel=Channel.DASHBOARD,
        scopes=scopes,
        credential=f"link:{link.id}",
    )


async def revoke_action_links(ctx: RequestContext, subject_id: str | None) -> int:
    """Revoke the action links of a plan or run or, without a `subject_id`, of the whole org.

    Return how many links were revoked.
    """
    (rows,) = await ctx.write_and_read(
        links.SQL["revoke_action_links"](subject_id=subject_id, by=ctx.caller.user)
    )
    return len(rows)


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
