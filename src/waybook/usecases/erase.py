"""Erasure, by an operator: of an org with all that is its own, of a user with their name.

No tool does this, and no page; what is left says when it was done, by whom, and how much it was.
"""

import asyncio
from secrets import token_hex

from waybook.errors import InvalidInput
from waybook.record.pseudonyms import Pseudonymization
from waybook.store import erasure, renaming
from waybook.store.erasure import Erased, Progress

#: What stands before what an erased user is called from then on.
PSEUDONYM_PREFIX = "erased-"


async def erase_org(owner_dsn: str, slug: str, *, by: str, progress: Progress) -> Erased:
    """Erase an org.

    Raises:
        NotFound: there is none of this name.
        Busy: somebody is at work there; nothing was erased.
    """
    org_id = await asyncio.to_thread(erasure.find_org, owner_dsn, slug)
    return await asyncio.to_thread(erasure.erase_org, owner_dsn, org_id, by, progress)


async def erase_user(
    owner_dsn: str, slug: str, user: str, *, by: str, progress: Progress
) -> Erased:
    """Erase a user: the name gives way to a pseudonym that says nothing.

    Raises:
        NotFound: there is no such org, or nobody of that name ever did anything there.
        InvalidInput: the user was erased already.
        Refused: a chain of the audit is broken, which this would hide.
        Busy: somebody is at work there; nothing was erased.
    """
    if user.startswith(PSEUDONYM_PREFIX):
        raise InvalidInput(f"“{user}” is what somebody is called who was erased already")
    org_id = await asyncio.to_thread(erasure.find_org, owner_dsn, slug)
    to = Pseudonymization(user, f"{PSEUDONYM_PREFIX}{token_hex(4)}")
    return await asyncio.to_thread(renaming.erase_user, owner_dsn, org_id, to, by, progress)
