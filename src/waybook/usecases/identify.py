"""Who is calling, by the credential they show.

It is looked up in every request and kept nowhere, so that what is revoked counts no more, at once
and in every process.
"""

from waybook.errors import Unauthenticated
from waybook.orgs.secret import hash_token, looks_like_token
from waybook.record.moment import Channel
from waybook.store import identities
from waybook.usecases.exchange import Caller
from waybook.usecases.house import Services


async def authenticate_token(services: Services, secret: str, channel: Channel) -> Caller:
    """Whoever shows this API token, coming through this door.

    Raises:
        Unidentified: it is no token, or one that does not count; which of these is not told.
    """
    if not looks_like_token(secret):
        raise Unauthenticated
    found = await services.database.read_by_secret(
        hash_token(secret), *identities.by_token_statements()
    )
    bearer = identities.read_bearer(found[-1])
    if bearer is None:
        raise Unauthenticated
    if bearer.record_use:
        services.last_used.record(bearer.org_id, bearer.token_id)
    return Caller(
        org_id=bearer.org_id,
        user=bearer.user,
        channel=channel,
        scopes=bearer.scopes,
        credential=f"token:{bearer.token_id}",
    )
