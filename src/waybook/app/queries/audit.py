"""Audit queries: single chains, filtered pages over the org, exports, and event labels.

Entries never change, so the pages of a chain fit together although each is read separately.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from waybook.app.request.lookups import id_or_nil
from waybook.app.request.reply import format_time, non_empty
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Change
from waybook.core.decision_context import Scope
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json, rfc3339
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.ids import is_id
from waybook.store.driver.queries import Statement
from waybook.store.runs.load import LAST_ID

PAGE_SIZE = 500


async def read_entries(
    ctx: RequestContext, subject_id: str, *, until: int
) -> AsyncIterator[list[SealedEntry]]:
    """Yield the entries of a subject up to a number, oldest first, page by page."""
    since = 0
    while since < until:
        statement = audit.SQL["chain"](
            subject_id=subject_id, since=since, until=until, most=PAGE_SIZE
        )
        (rows,) = await ctx.read(statement)
        if not rows:
            return
        page = audit.read_entries(rows)
        yield page
        since = page[-1].seq


async def read_all_entries(
    ctx: RequestContext, subject_id: str, *, until: int
) -> list[SealedEntry]:
    """Return the entries of a subject up to a number in one list."""
    return [entry async for page in read_entries(ctx, subject_id, until=until) for entry in page]


def changes_in(entries: Iterable[SealedEntry]) -> Iterator[Change]:
    """Yield every change in these entries, in order."""
    return (change for entry in entries for change in audit.changes_of(_told(entry)))


def entry_details(entry: SealedEntry) -> dict[str, Json]:
    """Return the details of an entry other than its changes, such as its reason."""
    told = _told(entry)
    return {k: v for k, v in told.items() if k != "changes"} if isinstance(told, dict) else {}


def _told(entry: SealedEntry) -> Json:
    told: Json = json.loads(entry.details)
    return told


BROWSE_PAGE_SIZE = 50
#: Maximum entries in one export, and the number fetched per query.
MAX_EXPORTED_ENTRIES = 100_000
EXPORT_BATCH_SIZE = 500
#: Bounds before all times, after all times, and after all entry numbers.
EVER, NEVER, LAST_SEQ = "-infinity", "infinity", 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Filter of audit entries; all given fields must match."""

    subject_id: str | None = None
    event: str | None = None
    actor: str | None = None
    channel: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Only entries after this cursor, with which an earlier page ended.
    after_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class EntriesPage:
    entries: list[SealedEntry]
    #: Cursor of the next page; None on the last page.
    next_cursor: str | None


async def browse_audit(
    ctx: RequestContext, asked: AuditFilter, limit: int = BROWSE_PAGE_SIZE
) -> EntriesPage:
    """Return a page of the audit, newest first.

    Entries about users and tokens are returned to administrators only: they contain names,
    addresses and scopes.

    Raises:
        InvalidInput: the cursor is not valid.
    """
    members = Scope.ADMIN in ctx.caller.scopes
    (rows,) = await ctx.read(_statement(asked, limit + 1, members=members))
    entries = audit.read_entries(rows)
    shown = entries[:limit]
    return EntriesPage(shown, entry_cursor(shown[-1]) if len(entries) > limit else None)


async def all_entries(
    ctx: RequestContext, asked: AuditFilter, most: int = MAX_EXPORTED_ENTRIES
) -> AsyncIterator[list[SealedEntry]]:
    """Yield the pages of the audit, up to `most` entries."""
    while most > 0:
        page = await browse_audit(ctx, asked, min(EXPORT_BATCH_SIZE, most))
        yield page.entries
        most -= len(page.entries)
        if page.next_cursor is None:
            return
        asked = replace(asked, after_cursor=page.next_cursor)


def entry_cursor(entry: SealedEntry) -> str:
    """Return the cursor of an entry: its position in the order of all entries."""
    return f"{rfc3339(entry.at)}~{entry.subject_id}~{entry.seq}"


def _statement(asked: AuditFilter, most: int, *, members: bool) -> Statement:
    at, subject_id, seq = _place(asked)
    given = {
        "since": rfc3339(asked.since) if asked.since else EVER,
        "event": asked.event,
        "actor": asked.actor,
        "channel": asked.channel,
        "members": members,
        "most": most,
    }
    if asked.subject_id is None:
        return audit.SQL["page"](at=at, subject_id=subject_id, seq=seq, **given)
    # Within one chain the numbers give the order; the time is only a bound.
    until = rfc3339(asked.until) if asked.until else NEVER
    named = id_or_nil(asked.subject_id)
    return audit.SQL["page_of"](at=until, subject_id=named, seq=seq, **given)


def _place(asked: AuditFilter) -> tuple[str, str, int]:
    """Return the position after which the requested entries begin."""
    if asked.after_cursor is None:
        if asked.until is None:
            return NEVER, LAST_ID, LAST_SEQ
        return rfc3339(asked.until), "00000000-0000-0000-0000-000000000000", 0
    try:
        at, subject_id, seq = asked.after_cursor.split("~")
        place = rfc3339(datetime.fromisoformat(at)), subject_id, int(seq)
    except ValueError:
        place = "", "", 0
    if not is_id(place[1]) or not 0 <= place[2] <= LAST_SEQ:
        raise InvalidInput("this page of the audit has no such beginning; start from the first")
    return place


MAX_LIMIT = 1_000


async def list_audit(
    ctx: RequestContext,
    plan_id: str | None = None,
    *,
    since: datetime | None = None,
    limit: int = 50,
) -> list[Body]:
    """Return the last entries of a plan, or of the whole org, newest first."""
    statement = audit.SQL["recent"](
        subject_id=id_or_nil(plan_id) if plan_id else None,
        since=since,
        members=Scope.ADMIN in ctx.caller.scopes,
        most=min(limit, MAX_LIMIT),
    )
    (rows,) = await ctx.read(statement)
    return [entry_view(entry) for entry in audit.read_entries(rows)]


def entry_view(entry: SealedEntry) -> Body:
    """Return an entry in the form for users and programs."""
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


EVENT_LABELS = {
    "step_started": "took a step",
    "step_completed": "completed a step",
    "step_failed": "gave a step up",
    "plan_modified": "changed the plan",
    "session_resumed": "came back to the plan",
    "skill_started": "started a skill",
    "skill_completed": "completed a skill",
}
#: Labels for runs where they differ.
RUN_EVENT_LABELS = {
    "step_started": "took a job",
    "step_completed": "completed a job",
    "step_failed": "gave a job back",
    "plan_modified": "changed the run",
}
ACTION_LABELS = {
    "created": "wrote the plan",
    "stall_detected": "noticed a stall",
    "resumed": "woke the plan up",
    "review_requested": "asked for a review",
    "decision": "decided a review",
    "add_steps": "added steps",
    "remove_step": "removed a step",
    "reorder_steps": "reordered the steps",
    "update_step_instructions": "rewrote a step",
    "fail_step": "gave a step up",
    "retry_step": "gave a step back to be retried",
    "research_stored": "stored research",
    "run_started": "started the run",
    "stage_started": "started a stage",
    "stage_feedback": "gave feedback on a stage",
    "retry_failed": "gave what failed a fresh start",
    "regenerate": "asked for a document to be written anew",
    "rendered": "rendered documents",
    "late_result": "came back too late",
    "org_recorded": "began to note what becomes of the org",
    "org_changed": "changed the org",
    "user_added": "let a user in",
    "user_scopes_changed": "changed what a user may do",
    "user_disabled": "disabled a user",
    "user_enabled": "enabled a user",
    "user_erased": "erased a user",
    "token_added": "made a token",
    "token_revoked": "revoked a token",
}


def event_label(event: str, action: str | None, subject: str = "plan") -> str:
    """Return the label of an event.

    >>> event_label("plan_modified", "stall_detected"), event_label("step_started", None)
    ('noticed a stall', 'took a step')
    >>> event_label("step_started", None, "run")
    'took a job'
    """
    words = {**EVENT_LABELS, **RUN_EVENT_LABELS} if subject == RUN else EVENT_LABELS
    return ACTION_LABELS.get(action or "", words.get(event, event.replace("_", " ")))


RUN = "run"
