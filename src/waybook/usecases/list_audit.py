"""The audit, read: who did what, when, and why."""

from datetime import datetime

from waybook.record.moment import Json
from waybook.record.scopes import Scope
from waybook.store import audit
from waybook.store.audit import Sealed
from waybook.usecases.audit_trail import changes_in, told_beside
from waybook.usecases.call import Body, Call, known
from waybook.usecases.views import moment, told

MOST = 1_000


async def list_audit(
    call: Call, plan_id: str | None = None, *, since: datetime | None = None, limit: int = 50
) -> list[Body]:
    """The last entries of a plan, or of the whole org, newest first."""
    statement = audit.SQL["recent"](
        subject_id=known(plan_id) if plan_id else None,
        since=since,
        members=Scope.ADMIN in call.caller.scopes,
        most=min(limit, MOST),
    )
    (rows,) = await call.read(statement)
    return [entry_view(entry) for entry in audit.read_entries(rows)]


def entry_view(entry: Sealed) -> Body:
    """An entry as people and programs read it."""
    changes: list[Json] = [change.as_json() for change in changes_in([entry])]
    return told(
        subject=entry.subject,
        subjectId=entry.subject_id,
        seq=entry.seq,
        at=moment(entry.at),
        event=entry.event,
        actor=entry.actor,
        channel=entry.channel,
        sessionId=entry.session,
        details=told_beside(entry),
        changes=changes,
        hash=bytes(entry.hash).hex(),
    )
