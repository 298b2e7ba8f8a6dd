"""An org itself: what it is called, and who decides its reviews."""

from waybook.orgs.manage import change_org as change
from waybook.orgs.model import Org
from waybook.record.moment import ReviewPolicy
from waybook.usecases.call import Call
from waybook.usecases.held_org import held_org


async def change_org(
    call: Call, *, name: str | None = None, policy: ReviewPolicy | None = None
) -> Org:
    """Call the org otherwise, or have its reviews decided otherwise.

    Raises:
        Forbidden: the caller does not look after the org.
        InvalidInput: it cannot be called so.
    """
    async with held_org(call) as held:
        org, entry = change(held.org, held.moment, name=name, policy=policy)
        if entry is not None:
            await held.write(entry, org=org)
        return org


async def record_org(call: Call) -> None:
    """Begin the chain of a new org."""
    async with held_org(call) as held:
        if not held.loaded.head.seq:
            await held.write()
