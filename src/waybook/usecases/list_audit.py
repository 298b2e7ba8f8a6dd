"""The audit, read: who did what, when, and why."""

from datetime import datetime

from waybook.record.moment import Json
from waybook.record.scopes import Scope
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.usecases.audit_trail import changes_in, entry_details
from waybook.usecases.call import Body, RequestContext, id_or_nil
from waybook.usecases.views import format_time, non_empty

MAX_LIMIT = 1_000


async def list_audit(
    ctx: RequestContext,
    plan_id: str | None = None,
    *,
    since: datetime | None = None,
    limit: int = 50,
) -> list[Body]:
    """The last entries of a plan, or of the whole org, newest first."""
    statement = audit.SQL["recent"](
        subject_id=id_or_nil(plan_id) if plan_id else None,
        since=since,
        members=Scope.ADMIN in ctx.caller.scopes,
        most=min(limit, MAX_LIMIT),
    )
    (rows,) = await ctx.read(statement)
    return [entry_view(entry) for entry in audit.read_entries(rows)]


def entry_view(entry: SealedEntry) -> Body:
    """An entry as people and programs read it."""
    changes: list[Json] = [change.as_json() for change in changes_in([entry])]
    return non_empty(
        subject=entry.subject,
        subjectId=entry.subject_id,
        seq=entry.seq,
        at=format_time(entry.at),
        event=entry.event,
        actor=entry.actor,
        channel=entry.channel,
        sessionId=entry.session,
        details=entry_details(entry),
        changes=changes,
        hash=bytes(entry.hash).hex(),
    )
