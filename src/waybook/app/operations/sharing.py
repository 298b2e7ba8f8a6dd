"""Creates, lists and revokes links to snapshots of plans."""

import secrets
from typing import Final, NamedTuple

from waybook.accounts.model import hash_token
from waybook.app.queries.plans.plan_snapshot import read_snapshot_entries
from waybook.app.queries.work_list import resolve_plan
from waybook.app.request.caller import require_scope
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.core.decision_context import Scope
from waybook.core.ids import id_or_nil
from waybook.core.org_codes import with_org
from waybook.errors import InvalidInput
from waybook.store import audit, links
from waybook.store.driver.queries import Row, new_uuid

SHARED_PATH: Final = "/shared"
DEFAULT_DAYS: Final = 30
MAX_DAYS: Final = 365
_MAX_LINKS: Final = 50
_SECRET_BYTES: Final = 32


class _SharedPlan(NamedTuple):
    id: str
    name: str
    seq: int
    seal: str
    links: list[Row]


async def read_shared_plan(ctx: RequestContext, plan_id: str) -> _SharedPlan:
    plan = await resolve_plan(ctx, id_or_nil(plan_id))
    ends, listed = await ctx.read(
        audit.SQL["head"](subject_id=plan.id),
        links.SQL["snapshot_links"](plan_id=plan.id, most=_MAX_LINKS),
    )
    end = ends[0]
    return _SharedPlan(
        id=plan.id, name=plan.name, seq=end.seq, seal=bytes(end.hash).hex(), links=[*listed]
    )


async def create_snapshot_link(ctx: RequestContext, plan_id: str, days: int) -> str:
    """Create a link to a snapshot of the plan as of its last audit entry.

    Return the secret of the link, which is not stored.
    """
    require_scope(ctx.caller, Scope.PLAN_WRITE, "sharing a snapshot")
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"a link is valid for 1 to {MAX_DAYS} days", argument="days")
    plan = await read_shared_plan(ctx, plan_id)
    await read_snapshot_entries(ctx, plan.id, plan.seq)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    statement = links.SQL["insert_snapshot_link"](
        id=new_uuid(),
        hash=hash_token(secret),
        plan_id=plan.id,
        seq=plan.seq,
        for_user=ctx.caller.user,
        days=days,
    )
    await ctx.write_and_read(statement)
    is_cluster = await ctx.services.database.is_cluster()
    return with_org(secret, ctx.caller.org_id) if is_cluster else secret


async def share_plan(ctx: RequestContext, plan_id: str, days: object, base_url: str) -> str:
    """Create a link that is valid for this number of days, and return its URL."""
    number = days if isinstance(days, int) and not isinstance(days, bool) else 0
    return f"{base_url}{SHARED_PATH}/{await create_snapshot_link(ctx, plan_id, number)}"


async def revoke_snapshot_link(ctx: RequestContext, plan_id: str, link_id: str) -> None:
    require_scope(ctx.caller, Scope.PLAN_WRITE, "revoking a link")
    statement = links.SQL["revoke_snapshot_link"](
        id=uuid_or_nil(link_id), plan_id=id_or_nil(plan_id), by=ctx.caller.user
    )
    (rows,) = await ctx.write_and_read(statement)
    if not rows:
        raise not_found("link")
