"""Verifies that audit chains are intact and that their replay yields the stored rows.

Chains are verified one by one, so that memory use is limited by the longest chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from waybook.app.operations.imports import ExportFile, is_export, read_export
from waybook.app.queries.audit import RUN, changes_in, read_all_entries
from waybook.app.queries.plans.plan_snapshot import DATA_END, DATA_START, GENERATOR, snapshot_file
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import ReplayError, differences, replay
from waybook.errors import InvalidInput
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


def verify_file(content: bytes, seal: str | None = None) -> ExportFile:
    """Verify a snapshot or JSON export: its audit chain, its rows, and the page it shows.

    A forger could replace the whole chain with another valid chain. To detect this, compare the
    chain with `seal`, the expected hash of the last audit entry.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _unknown() from None
    is_page = text.lstrip().startswith("<")
    export = _parse(_embedded(text) if is_page else text)
    if is_page and snapshot_file(export.entries) != text:
        raise InvalidInput("the page of this snapshot differs from its audit entries")
    if seal is not None and seal.strip().lower() != export.seal:
        raise InvalidInput(
            f"the last entry of this file has the seal {export.seal}, not the expected one"
        )
    return export


def _embedded(text: str) -> str:
    start, end = text.find(DATA_START), text.rfind(DATA_END)
    if start < 0 or end < start:
        raise _unknown()
    if GENERATOR not in text:
        raise InvalidInput(
            "this snapshot was made by another version of Waybook; verify it with that version"
        )
    return text[start + len(DATA_START) : end]


def _parse(text: str) -> ExportFile:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise _unknown() from None
    if not is_export(data):
        raise _unknown()
    try:
        return read_export(data)
    except InvalidInput as error:
        raise InvalidInput(error.message.removesuffix("; nothing was imported")) from None


def _unknown() -> InvalidInput:
    return InvalidInput(
        "this file is neither a snapshot nor a complete JSON export of a plan or run; it may have "
        "been cut"
    )
