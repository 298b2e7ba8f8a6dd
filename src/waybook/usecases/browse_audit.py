"""The audit for people: a page of it, of those entries they ask for, and all of them as a file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

from waybook.errors import InvalidInput
from waybook.record.moment import rfc3339
from waybook.record.scopes import Scope
from waybook.store import audit
from waybook.store.audit import Sealed
from waybook.store.ids import is_id
from waybook.store.runs import LAST_ID
from waybook.store.sql import Statement
from waybook.usecases.call import Call, known

PAGE = 50
#: As many entries go into one file, fetched so many at a time.
MOST_IN_A_FILE = 100_000
AT_ONCE = 500
#: Before all times, after all times, and after all numbers.
EVER, NEVER, LAST_SEQ = "-infinity", "infinity", 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEntries:
    """Which entries: all that is said must hold."""

    subject_id: str | None = None
    event: str | None = None
    actor: str | None = None
    channel: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    #: Only those behind this place, which an earlier page ended at.
    behind: str | None = None


@dataclass(frozen=True, slots=True)
class EntriesPage:
    entries: list[Sealed]
    #: Where the next page goes on; None at the end.
    behind: str | None


async def browse_audit(call: Call, asked: AskedEntries, limit: int = PAGE) -> EntriesPage:
    """A page of the audit, newest first.

    What was done to users and tokens is told to whoever looks after these: it has names, addresses
    and scopes in it.

    Raises:
        InvalidInput: the place to go on from is none of ours.
    """
    members = Scope.ADMIN in call.caller.scopes
    (rows,) = await call.read(_statement(asked, limit + 1, members=members))
    entries = audit.read_entries(rows)
    shown = entries[:limit]
    return EntriesPage(shown, place_of(shown[-1]) if len(entries) > limit else None)


async def all_entries(
    call: Call, asked: AskedEntries, most: int = MOST_IN_A_FILE
) -> AsyncIterator[list[Sealed]]:
    """The same, page after page, up to a bound."""
    while most > 0:
        page = await browse_audit(call, asked, min(AT_ONCE, most))
        yield page.entries
        most -= len(page.entries)
        if page.behind is None:
            return
        asked = replace(asked, behind=page.behind)


def place_of(entry: Sealed) -> str:
    """Where an entry stands in the order of all."""
    return f"{rfc3339(entry.at)}~{entry.subject_id}~{entry.seq}"


def _statement(asked: AskedEntries, most: int, *, members: bool) -> Statement:
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
    named = known(asked.subject_id)
    return audit.SQL["page_of"](at=until, subject_id=named, seq=seq, **given)


def _place(asked: AskedEntries) -> tuple[str, str, int]:
    """The place all entries asked for stand behind."""
    if asked.behind is None:
        if asked.until is None:
            return NEVER, LAST_ID, LAST_SEQ
        return rfc3339(asked.until), "00000000-0000-0000-0000-000000000000", 0
    try:
        at, subject_id, seq = asked.behind.split("~")
        place = rfc3339(datetime.fromisoformat(at)), subject_id, int(seq)
    except ValueError:
        place = "", "", 0
    if not is_id(place[1]) or not 0 <= place[2] <= LAST_SEQ:
        raise InvalidInput("this page of the audit has no such beginning; start from the first")
    return place
