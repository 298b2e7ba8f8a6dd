"""A plan as it was: replayed from its audit, up to a time or an entry."""

from dataclasses import dataclass
from datetime import datetime

from waybook.errors import NotFound
from waybook.record.replay import Rows, replay
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.usecases.audit_trail import changes_in, read_all_entries
from waybook.usecases.call import RequestContext, id_or_nil


@dataclass(frozen=True, slots=True)
class PlanAsOf:
    """The rows of a plan after an entry, and that entry."""

    rows: Rows
    last: SealedEntry


async def plan_as_of(
    ctx: RequestContext, plan_id: str, *, at: datetime | None = None, seq: int | None = None
) -> PlanAsOf:
    """Replay the plan up to a time, or up to an entry.

    Raises:
        NotFound: there was no such plan yet.
    """
    until = seq if seq is not None else await _seq_at(ctx, plan_id, at)
    entries = await read_all_entries(ctx, id_or_nil(plan_id), until=until)
    if not entries:
        raise NotFound("there was no such plan yet at that time")
    return PlanAsOf(replay(changes_in(entries)), entries[-1])


async def _seq_at(ctx: RequestContext, plan_id: str, at: datetime | None) -> int:
    (rows,) = await ctx.read(audit.SQL["until"](subject_id=id_or_nil(plan_id), at=at))
    seq: int = rows[0][0]
    return seq
