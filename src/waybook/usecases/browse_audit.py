"""The audit for people: a page of it, of those entries they ask for, and all of them as a file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

from waybook.errors import InvalidInput
from waybook.record.moment import rfc3339
from waybook.record.scopes import Scope
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.ids import is_id
from waybook.store.runs import LAST_ID
from waybook.store.sql import Statement
from waybook.usecases.call import RequestContext, id_or_nil

PAGE_SIZE = 50
#: As many entries go into one file, fetched so many at a time.
MAX_EXPORTED_ENTRIES = 100_000
EXPORT_BATCH_SIZE = 500
#: Before all times, after all times, and after all numbers.
EVER, NEVER, LAST_SEQ = "-infinity", "infinity", 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries: all that is said must hold."""

    subject_id: str | None = None
    event: str | None = None
    actor: str | None = None
    channel: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Only those behind this place, which an earlier page ended at.
    after_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class EntriesPage:
    entries: list[SealedEntry]
    #: Where the next page goes on; None at the end.
    next_cursor: str | None


async def browse_audit(
    ctx: RequestContext, asked: AuditFilter, limit: int = PAGE_SIZE
) -> EntriesPage:
    """A page of the audit, newest first.

    What was done to users and tokens is told to whoever looks after these: it has names, addresses
    and scopes in it.

    Raises:
        InvalidInput: the place to go on from is none of ours.
    """
    members = Scope.ADMIN in ctx.caller.scopes
    (rows,) = await ctx.read(_statement(asked, limit + 1, members=members))
    entries = audit.read_entries(rows)
    shown = entries[:limit]
    return EntriesPage(shown, entry_cursor(shown[-1]) if len(entries) > limit else None)


async def all_entries(
    ctx: RequestContext, asked: AuditFilter, most: int = MAX_EXPORTED_ENTRIES
) -> AsyncIterator[list[SealedEntry]]:
    """The same, page after page, up to a bound."""
    while most > 0:
        page = await browse_audit(ctx, asked, min(EXPORT_BATCH_SIZE, most))
        yield page.entries
        most -= len(page.entries)
        if page.next_cursor is None:
            return
        asked = replace(asked, after_cursor=page.next_cursor)


def entry_cursor(entry: SealedEntry) -> str:
    """Where an entry stands in the order of all."""
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
    # Within one chain numbers are the order; the time is only a bound.
    until = rfc3339(asked.until) if asked.until else NEVER
    named = id_or_nil(asked.subject_id)
    return audit.SQL["page_of"](at=until, subject_id=named, seq=seq, **given)


def _place(asked: AuditFilter) -> tuple[str, str, int]:
    """The place all entries asked for stand behind."""
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
