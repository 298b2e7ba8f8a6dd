"""A plan to take along: everything that is kept of it, its whole audit included."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from waybook.record.moment import Json, rfc3339
from waybook.record.replay import Row, Rows
from waybook.store import plans, sheets
from waybook.store.audit import SealedEntry
from waybook.store.plans import PlanRequest, read_stored_rows
from waybook.store.sheets import HistoryEntry
from waybook.usecases.audit_trail import read_entries
from waybook.usecases.call import Body, RequestContext, id_or_nil

FORMAT, VERSION = "waybook.plan", 1
#: What each kind of row is called in an export, in the order they stand there.
EXPORT_KEYS = {
    "step": "steps",
    "condition": "conditions",
    "review": "reviews",
    "artifact": "artifacts",
    "source": "sources",
    "artifact_source": "artifactSources",
    "usage": "usage",
    "session": "sessions",
}
#: A report for people tells so much of what happened.
MAX_HISTORY_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRows:
    """Every row of a plan, as of one moment."""

    plan_id: str
    name: str
    now: datetime
    #: The number of the last audit entry there was.
    seq: int
    rows: Rows
    #: The last things that happened, newest first.
    history: list[HistoryEntry]


async def read_plan_rows(ctx: RequestContext, plan_id: str) -> PlanRows:
    """Read all that is kept of a plan, in one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    plan_id = id_or_nil(plan_id)
    loaded, (stored, texts, happenings) = await ctx.load_plan(
        PlanRequest(plan_id=plan_id),
        plans.stored_rows_statement(plan_id),
        sheets.output_texts_statement(plan_id),
        sheets.history_statement(plan_id, None, MAX_HISTORY_ENTRIES),
    )
    rows = read_stored_rows(stored)
    for artifact_id, content in texts:
        rows["artifact"][artifact_id]["content"] = content
    return PlanRows(
        plan_id=loaded.plan.id,
        name=loaded.plan.name,
        now=loaded.now,
        seq=loaded.plan.seq,
        rows=rows,
        history=sheets.read_history(happenings),
    )


def export_body(found: PlanRows) -> Body:
    """The export but for its audit."""
    (plan,) = found.rows["plan"].values()
    kinds = {name: _rows(found.rows, kind) for kind, name in EXPORT_KEYS.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "exportedAt": rfc3339(found.now),
        "plan": {"id": found.plan_id, **_camel(plan)},
        **kinds,
    }


async def export_audit(ctx: RequestContext, found: PlanRows) -> AsyncIterator[list[SealedEntry]]:
    """The audit up to the moment of the export, a page at a time, oldest first."""
    async for page in read_entries(ctx, found.plan_id, until=found.seq):
        yield page


def _rows(rows: Rows, kind: str) -> list[Json]:
    found = sorted(rows.get(kind, {}).items(), key=lambda one: (_place(one[1]), one[0]))
    return [{"id": row_id, **_camel(row)} for row_id, row in found]


def _place(row: Row) -> int:
    """Steps and conditions have places; ids tell the order of everything else."""
    place = row.get("order", row.get("position"))
    return place if isinstance(place, int) else 0


def _camel(row: Row) -> Row:
    return {_name(name): value for name, value in row.items()}


def _name(column: str) -> str:
    first, *rest = column.split("_")
    return first + "".join(word.capitalize() for word in rest)
