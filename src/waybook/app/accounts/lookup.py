"""Looks up API tokens, links and web sessions by their secrets, and orgs by their slugs.

Callers who presented a valid API token are cached.
"""

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from waybook.accounts.model import LOCAL_ORG, OrgListItem, hash_token, looks_like_token
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel, Scope
from waybook.core.org_codes import org_in
from waybook.errors import Forbidden, NotFound, StaleCredential, Unauthenticated
from waybook.notifications.delivery import looks_like_secret
from waybook.store import links
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import TokenIdentity
from waybook.store.driver.database import CURRENT_CHECK, CredentialCheck, Database
from waybook.store.driver.queries import Statement, first_value
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
