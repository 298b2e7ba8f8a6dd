"""Lookup of callers by API token, and of orgs by slug."""

import difflib
from uuid import UUID

from waybook.accounts.model import OrgListItem
from waybook.accounts.tokens import hash_token, looks_like_token
from waybook.app.accounts.secret_lookup import find_by_secret
from waybook.app.accounts.token_cache import TokenCache
from waybook.app.request.caller import Caller
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel
from waybook.errors import NotFound, Unauthenticated
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import TokenIdentity


async def authenticate_token(
    services: Services, secret: str, channel: Channel, cache: TokenCache | None = None
) -> Caller:
    """Look up an API token, cache it, and return its user as the caller.

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
    (rows,) = await services.database.read_directory(accounts.orgs_statement())
    return accounts.read_orgs(rows)


async def require_org(services: Services, slug: str) -> UUID:
    slugs = {item.org.slug: item.org.id for item in await find_orgs(services)}
    if slug not in slugs:
        near = difflib.get_close_matches(slug, slugs, 1)
        raise NotFound(f"there is no org {slug}{f'; did you mean {near[0]}?' if near else ''}")
    return UUID(slugs[slug])
