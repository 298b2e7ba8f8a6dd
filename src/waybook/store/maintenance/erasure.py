"""Erases an org with all its rows, in one transaction. Only a record of the erasure remains."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from waybook.accounts.model import LOCAL_ORG
from waybook.errors import NotFound
from waybook.store.audit import ChainHead, SealedEntry, first_broken
from waybook.store.driver.queries import as_json_text, first_column, first_value, load
from waybook.store.maintenance.migrate import owner_connection
from waybook.store.maintenance.owner import (
    Erasure,
    OwnerTransaction,
    Tombstone,
    directory_transaction,
    owner_transaction,
    read_head,
    seal_of,
)

SQL = load("maintenance/erasure", chain_entries=SealedEntry)

Progress = Callable[[int, int], None]

#: Tables with rows that tool calls lock. An erasure locks these rows before it deletes anything.
_LOCKED = ("plan", "run", "skill_execution")
MAX_PASSES = 5


class Erased(NamedTuple):
    org_id: UUID
    number: int
    counts: dict[str, int]
    who: str | None = None


def find_org(owner_dsn: str, slug: str) -> UUID:
    with owner_connection(owner_dsn) as connection, directory_transaction(connection) as owner:
        rows = owner.fetch(SQL["find_org"], slug=slug)
    if not rows:
        raise NotFound(f"there is no org “{slug}” here", org=slug)
    org_id: UUID = first_value(rows)
    return org_id


def erase_org(owner_dsn: str, org_id: UUID, by: str, progress: Progress) -> Erased:
    """Erase an org and all its rows. In local mode, the only org is emptied, but not deleted."""
    with owner_transaction(owner_dsn, org_id) as owner:
        head = lock_org(owner)
        for table in _LOCKED:
            owner.fetch(SQL["lock_rows"], table)
        gone = [Tombstone(*chain) for chain in owner.fetch(SQL["ends"])]
        counts = _delete_org_rows(owner, progress)
        written = record_erasure(owner, head, what="org", by=by, counts=counts, stones=gone)
        if org_id == LOCAL_ORG:
            owner.fetch(SQL["upsert_local_org"], number=written.number, hash=written.hash)
    erase_late_rows(owner_dsn, org_id)
    return Erased(org_id, written.number, counts)


def erase_late_rows(owner_dsn: str, org_id: UUID) -> None:
    """Erase rows that calls added to an org while or after it was erased."""
    for _ in range(MAX_PASSES):
        with owner_transaction(owner_dsn, org_id) as owner:
            spared = {"org"} if org_id == LOCAL_ORG else set()
            if not _delete_org_rows(owner, lambda *_: None, spared):
                return


def _delete_org_rows(
    owner: OwnerTransaction, progress: Progress, spared: Iterable[str] = ()
) -> dict[str, int]:
    tables = [table for table in tables_in_order(owner) if table not in {*spared}]
    counts: Counter[str] = Counter()
    for done, table in enumerate(tables, start=1):
        counts[table] += owner.change(SQL["delete_rows"], table)
        progress(done, len(tables))
    return {table: rows for table, rows in sorted(counts.items()) if rows}


def tables_in_order(owner: OwnerTransaction) -> list[str]:
    return first_column(owner.fetch(SQL["tables"]))


def read_chain(owner: OwnerTransaction, subject_id: str) -> list[SealedEntry]:
    entries: list[SealedEntry] = owner.fetch(SQL["chain_entries"], id=subject_id)
    # Convert the times to UTC, because the seals were computed from times in UTC.
    return [entry._replace(at=entry.at.astimezone(UTC)) for entry in entries]


def is_chain_valid(entries: list[SealedEntry], end: bytes) -> bool:
    return bool(entries) and not first_broken(entries) and entries[-1].hash == end


def lock_org(owner: OwnerTransaction) -> ChainHead:
    head = read_head(owner.fetch(SQL["lock_org"]))
    if head is None:
        raise NotFound("this org no longer exists: it was erased")
    return head


def transaction_time(owner: OwnerTransaction) -> datetime:
    now: datetime = first_value(owner.fetch(SQL["now"]))
    return now


def record_erasure(
    owner: OwnerTransaction,
    head: ChainHead,
    *,
    what: str,
    by: str,
    counts: dict[str, int],
    stones: list[Tombstone],
    who: str | None = None,
) -> Erasure:
    number, at, text = head.seq + 1, transaction_time(owner), as_json_text(counts)
    unsealed = Erasure(number, at, by, what, who, text, tombstones=tuple(stones))
    erasure = unsealed._replace(hash=seal_of(unsealed, head.hash))
    owner.fetch(SQL["insert_erasure"], **erasure._asdict())
    owner.execute_many(
        SQL["insert_tombstone"], [{"erasure": number, **stone._asdict()} for stone in stones]
    )
    owner.change(SQL["record_chain_head"], number=number, hash=erasure.hash)
    return erasure
