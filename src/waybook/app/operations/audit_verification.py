"""Verifies that audit chains are intact and that their replay yields the stored rows.

Chains are verified one by one, so that memory use is limited by the longest chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

from waybook.app.queries.audit import RUN, changes_in, read_all_entries
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import ReplayError, differences, replay
from waybook.store import audit
from waybook.store.accounts import accounts
from waybook.store.audit import GENESIS, SealedEntry, Subject
from waybook.store.driver.queries import Row, first_value
from waybook.store.maintenance import owner
from waybook.store.plans import load, writer
from waybook.store.research import artifacts
from waybook.store.runs import load as runs

PLAN = "plan"
_ARTIFACT = "artifact"
ORG = "org"


class AuditVerdict(NamedTuple):
    subject: Subject
    entries: int
    errors: tuple[str, ...] = ()
    first_broken_entry: int | None = None
    note: str | None = None

    @property
    def ok(self) -> bool:
        return not self.errors


async def audited_subjects(ctx: RequestContext) -> list[Subject]:
    """Return every plan, run or other subject with an audit chain, even if its row is missing."""
    stored, orphans = await ctx.read(audit.SQL["subjects"](), audit.SQL["orphans"]())
    return [*stored, *orphans]


async def verify_subject(ctx: RequestContext, subject: Subject) -> AuditVerdict:
    """Check that the audit entries are unchanged, and that the stored rows match them."""
    query, name = _STORED.get(subject.kind, (writer.SQL["stored_execution"], "id"))
    ends, stored, resealed = await ctx.read(
        audit.SQL["head"](subject_id=subject.id),
        query(**{name: subject.id}),
        owner.SQL["resealed_chains"](subject_id=subject.id),
    )
    if not ends:
        missing = f"the audit records this {subject.kind}, but its row is missing: it was deleted"
        return AuditVerdict(subject=subject, entries=0, errors=(missing,), first_broken_entry=1)
    end = ends[0]
    entries = await read_all_entries(ctx, subject.id, until=end.seq)
    broken = _first_broken(entries, end, resealed)
    if broken is not None:
        return AuditVerdict(
            subject=subject, entries=len(entries), errors=(broken[1],), first_broken_entry=broken[0]
        )
    try:
        # A skill execution has one row, and its query returns this row without its kind and id.
        if subject.kind not in _STORED:
            stored = [(subject.kind, subject.id, first_value(stored))]
        faults = tuple(differences(replay(changes_in(entries)), audit.read_rows(stored)))
    except ReplayError as error:
        faults = (f"the entries cannot be replayed: {error}",)
    return AuditVerdict(subject=subject, entries=len(entries), errors=faults)


def _first_broken(
    entries: list[SealedEntry], end: Row, resealed: Sequence[tuple[int, bytes]]
) -> tuple[int, str] | None:
    broken, seq = audit.first_broken(entries), end.seq
    if broken is not None:
        return broken
    if len(entries) < seq:
        missing = len(entries) + 1
        return missing, f"entry {missing} is missing: {seq} were written"
    if (entries[-1].hash if entries else GENESIS) != end.hash:
        return seq, f"entry {seq} is not the one that was written last: its seal is another"
    if end.last is not None and end.last > seq:
        return seq + 1, f"entry {seq + 1} was added from outside: {seq} were written"
    for number, seal in resealed:
        if len(entries) < number or entries[number - 1].hash != seal:
            return number, f"entry {number} lacks the seal that it got when a user was erased"
    return None


#: For each kind of subject of an audit chain: the query for its rows, and the parameter for its id.
_STORED = {
    PLAN: (load.SQL["stored_rows"], "plan_id"),
    RUN: (runs.SQL["run_rows"], "run_id"),
    _ARTIFACT: (artifacts.SQL["stored_standalone_rows"], "artifact_id"),
    ORG: (accounts.SQL["stored_org"], "org_id"),
}
