"""Who is calling, by the credential they show.

It is looked up in every request and kept nowhere, so that what is revoked counts no more, at once
and in every process.
"""

from waybook.errors import Unidentified
from waybook.orgs.secret import hash_of, is_token
from waybook.record.moment import Channel
from waybook.store import identities
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House


async def by_token(house: House, secret: str, channel: Channel) -> Caller:
    """Whoever shows this API token, coming through this door.

    Raises:
        Unidentified: it is no token, or one that does not count; which of these is not told.
    """
    if not is_token(secret):
        raise Unidentified
    found = await house.database.bearing(hash_of(secret), *identities.by_token_statements())
    bearer = identities.read_bearer(found[-1])
    if bearer is None:
        raise Unidentified
    if bearer.to_note:
        house.last_used.note(bearer.org_id, bearer.token_id)
    return Caller(
        org_id=bearer.org_id,
        user=bearer.user,
        channel=channel,
        scopes=bearer.scopes,
        credential=f"token:{bearer.token_id}",
    )
