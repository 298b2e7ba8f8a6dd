"""Plans and runs as they were at an earlier time, rebuilt from their audit."""

from dataclasses import dataclass
from datetime import datetime

from waybook.app.queries.audit import changes_in, read_all_entries
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.core.replay import Rows, replay
from waybook.errors import NotFound
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import first_value


@dataclass(frozen=True, slots=True)
class SubjectAsOf:
    rows: Rows
    last: SealedEntry


async def subject_as_of(
    ctx: RequestContext, subject_id: str, *, at: datetime | None = None, seq: int | None = None
) -> SubjectAsOf:
    until = seq if seq is not None else await _seq_at(ctx, subject_id, at)
    entries = await read_all_entries(ctx, id_or_nil(subject_id), until=until)
    if not entries:
        raise NotFound("there was no such plan or run yet at that time")
    return SubjectAsOf(replay(changes_in(entries)), entries[-1])


async def _seq_at(ctx: RequestContext, subject_id: str, at: datetime | None) -> int:
    (rows,) = await ctx.read(audit.SQL["until"](subject_id=id_or_nil(subject_id), at=at))
    return int(first_value(rows))
