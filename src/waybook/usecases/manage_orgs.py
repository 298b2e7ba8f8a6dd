"""An org itself: what it is called, and who decides its reviews."""

from waybook.orgs.manage import change_org as change
from waybook.orgs.model import Org
from waybook.record.moment import ReviewPolicy
from waybook.usecases.call import RequestContext
from waybook.usecases.held_org import lock_org


async def change_org(
    ctx: RequestContext, *, name: str | None = None, policy: ReviewPolicy | None = None
) -> Org:
    """Call the org otherwise, or have its reviews decided otherwise.

    Raises:
        Forbidden: the caller does not look after the org.
        InvalidInput: it cannot be called so.
    """
    async with lock_org(ctx) as locked:
        org, entry = change(locked.org, locked.decision_context, name=name, policy=policy)
        if entry is not None:
            await locked.write(entry, org=org)
        return org


async def start_org_audit(ctx: RequestContext) -> None:
    """Begin the chain of a new org."""
    async with lock_org(ctx) as locked:
        if not locked.loaded.head.seq:
            await locked.write()
