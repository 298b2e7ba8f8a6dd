"""The audit: numbered entries, each sealed with the hash of the one before it.

Changes brought together: what becomes of each row, whatever happened to it on the way.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry
from waybook.core.decision_context import Actor
from waybook.core.replay import change_from_json
from waybook.json_values import Json, rfc3339
from waybook.store.driver.queries import Rows, Statement, as_json_text, load

SQL = load("audit")

#: What the first entry of a chain is sealed upon.
GENESIS = bytes(32)


class SealedEntry(NamedTuple):
    """One entry as it is stored."""

    subject_id: str
    subject: str
    seq: int
    at: datetime
    event: str
    actor: str
    channel: str
    session: str | None
    details: str
    hash: bytes = b""


class ChainHead(NamedTuple):
    """The end of a chain: the last number, its seal, and its time."""

    seq: int = 0
    hash: bytes = GENESIS
    at: datetime | None = None

    def after(self, now: datetime) -> datetime:
        """Return the time of the next entry: `now`, but never before the last entry.

        Several servers write one chain, each by its own estimate of the database's clock, so the
        time may have to wait for the chain.
        """
        return now if self.at is None else max(now, self.at)


def seal(entry: SealedEntry, previous: bytes) -> bytes:
    """The hash of an entry upon the one before it: over everything it says, to the letter."""
    said = (
        entry.subject,
        entry.subject_id,
        str(entry.seq),
        rfc3339(entry.at),
        entry.event,
        entry.actor,
        entry.channel,
        entry.session if entry.session is not None else "\x00",
        entry.details,
    )
    parts = [previous]
    for part in said:
        told = part.encode()
        parts += (len(told).to_bytes(8, "big"), told)
    return sha256(b"".join(parts)).digest()


def chain(
    entries: Sequence[Entry],
    *,
    head: ChainHead,
    subject: tuple[str, str],
    now: datetime,
    actor: Actor,
) -> Iterator[SealedEntry]:
    """Number and seal new entries behind the head of their subject's chain."""
    previous, at = head.hash, head.after(now)
    for seq, new in enumerate(entries, start=head.seq + 1):
        entry = SealedEntry(
            subject_id=subject[1],
            subject=subject[0],
            seq=seq,
            at=at,
            event=new.event,
            actor=actor.user,
            channel=actor.channel,
            session=actor.session,
            details=as_json_text(
                {**new.details, "changes": [change.as_json() for change in new.changes]}
            ),
        )
        previous = seal(entry, previous)
        yield SealedEntry(*entry[:-1], hash=previous)


def first_broken(entries: Sequence[SealedEntry]) -> tuple[int, str] | None:
    """The number of the first entry that does not belong, and why; None if all do."""
    previous = GENESIS
    for expected, entry in enumerate(entries, start=1):
        if entry.seq < expected:
            return entry.seq, f"entry {entry.seq} is there twice: one was added from outside"
        if entry.seq != expected:
            return expected, f"entry {expected} is missing; the next one is {entry.seq}"
        if seal(entry, previous) != entry.hash:
            return expected, f"entry {expected} does not match its seal: it was changed"
        previous = entry.hash
    return None


def changes_of(details: Json) -> Iterator[Change]:
    """The changes an entry accounts for, read back from its details."""
    if isinstance(details, dict):
        told = details.get("changes")
        for change in told if isinstance(told, list) else []:
            if isinstance(change, dict):
                yield change_from_json(change)


def read_entries(rows: Iterable[tuple[Any, ...]]) -> list[SealedEntry]:
    """Entries as the queries here bring them: their columns are an entry's fields, in order.

    Times come back in UTC, in which they were sealed, whatever the time zone of the connection.
    """
    entries = (SealedEntry(*row) for row in rows)
    return [entry._replace(at=entry.at.astimezone(UTC)) for entry in entries]


@dataclass(slots=True)
class Patch:
    """One row's way through a decision: made or found, with these values, maybe removed."""

    id: str
    made: bool = False
    removed: bool = False
    values: dict[str, Json] = field(default_factory=dict)


class Patches:
    def __init__(self, changes: Iterable[Change]) -> None:
        """Bring the changes together, one patch per row, in order of first mention."""
        self._patches: dict[Entity, dict[str, Patch]] = {}
        for change in changes:
            kind = self._patches.setdefault(change.entity, {})
            patch = kind.get(change.id)
            if patch is None:
                patch = kind[change.id] = Patch(change.id)
            _merge(patch, change)

    def __contains__(self, entity: Entity) -> bool:
        """Whether something happened to rows of this kind."""
        return entity in self._patches

    def inserts(self, entity: Entity) -> list[Patch]:
        """The rows to insert."""
        return [p for p in self._of(entity) if p.made and not p.removed]

    def updates(self, entity: Entity) -> list[Patch]:
        """The rows to update."""
        return [p for p in self._of(entity) if not p.made and not p.removed]

    def deletes(self, entity: Entity) -> list[str]:
        """The ids of the rows to delete."""
        return [p.id for p in self._of(entity) if p.removed and not p.made]

    def _of(self, entity: Entity) -> Iterable[Patch]:
        found = self._patches.get(entity)
        return found.values() if found else ()


def _merge(patch: Patch, change: Change) -> None:
    if change.field != WHOLE_ROW:
        patch.values[change.field] = change.new
    elif isinstance(change.new, dict):
        patch.made = True
        patch.values.update(change.new)
    else:
        patch.removed = True


class WriteContext(NamedTuple):
    """Who writes, when, and upon which end of the audit chain."""

    now: datetime
    actor: Actor
    head: ChainHead = ChainHead()


# Audit


def sealed_entries(
    entries: tuple[Entry, ...], subject: tuple[str, str], write_context: WriteContext
) -> list[SealedEntry]:
    """The entries as they will stand in their subject's chain."""
    return list(
        chain(
            entries,
            head=write_context.head,
            subject=subject,
            now=write_context.now,
            actor=write_context.actor,
        )
    )


def audit_statements(sealed: list[SealedEntry]) -> list[Statement]:
    """Write the entries."""
    return [SQL["insert_audit"](rows=Rows(sealed))] if sealed else []
