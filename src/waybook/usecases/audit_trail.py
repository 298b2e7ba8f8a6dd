"""A chain of audit entries, read page by page: entries never change, so pages belong together."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator

from waybook.record.changes import Change
from waybook.record.moment import Json
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.usecases.call import RequestContext

PAGE_SIZE = 500


async def read_entries(
    ctx: RequestContext, subject_id: str, *, until: int
) -> AsyncIterator[list[SealedEntry]]:
    """The entries of a subject up to a number, oldest first."""
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
    """The same, all at once."""
    return [entry async for page in read_entries(ctx, subject_id, until=until) for entry in page]


def changes_in(entries: Iterable[SealedEntry]) -> Iterator[Change]:
    """Every change these entries account for, in order."""
    return (change for entry in entries for change in audit.changes_of(_told(entry)))


def entry_details(entry: SealedEntry) -> dict[str, Json]:
    """What an entry tells beside its changes: why it happened, in a few words."""
    told = _told(entry)
    return {k: v for k, v in told.items() if k != "changes"} if isinstance(told, dict) else {}


def _told(entry: SealedEntry) -> Json:
    told: Json = json.loads(entry.details)
    return told
