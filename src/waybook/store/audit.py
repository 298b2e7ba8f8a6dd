"""The audit: numbered entries, each sealed with the hash of the one before it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from waybook.plan.changes import Change, Entry
from waybook.plan.model import Actor, Json
from waybook.plan.replay import change_from_json
from waybook.store.sql import as_json_text, load

SQL = load("audit")

#: What the first entry of a chain is sealed upon.
GENESIS = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
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
    hash: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: the last number and its seal."""

    seq: int = 0
    hash: bytes = GENESIS


def seal(entry: Sealed, previous: bytes) -> bytes:
    """The hash of an entry upon the one before it: over everything it says, to the letter."""
    said = (
        entry.subject,
        entry.subject_id,
        str(entry.seq),
        entry.at.astimezone(UTC).isoformat(),
        entry.event,
        entry.actor,
        entry.channel,
        entry.session if entry.session is not None else "\x00",
        entry.details,
    )
    digest = sha256(previous)
    for part in said:
        told = part.encode()
        digest.update(len(told).to_bytes(8, "big"))
        digest.update(told)
    return digest.digest()


def chain(
    entries: Sequence[Entry],
    *,
    head: Head,
    subject: tuple[str, str],
    now: datetime,
    actor: Actor,
) -> Iterator[Sealed]:
    """Number and seal new entries behind the head of their subject's chain."""
    previous = head.hash
    for seq, entry in enumerate(entries, start=head.seq + 1):
        blank = Sealed(
            subject=subject[0],
            subject_id=subject[1],
            seq=seq,
            at=now,
            event=str(entry.event),
            actor=actor.user,
            channel=str(actor.channel),
            session=actor.session,
            details=as_json_text(
                {**entry.details, "changes": [change.as_json() for change in entry.changes]}
            ),
            hash=b"",
        )
        previous = seal(blank, previous)
        yield with_hash(blank, previous)


def with_hash(entry: Sealed, digest: bytes) -> Sealed:
    """The entry with its seal on it."""
    return Sealed(**{name: getattr(entry, name) for name in _FIELDS}, hash=digest)


_FIELDS = tuple(name for name in Sealed.__slots__ if name != "hash")


def first_broken(entries: Sequence[Sealed]) -> tuple[int, str] | None:
    """The number of the first entry that does not belong, and why; None if all do."""
    previous = GENESIS
    for expected, entry in enumerate(entries, start=1):
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


def read_entries(rows: list[tuple[object, ...]]) -> list[Sealed]:
    """Entries as the query `entries` brings them."""
    return [Sealed(**dict(zip(Sealed.__slots__, row, strict=True))) for row in rows]  # type: ignore[arg-type]  # the query's columns are these fields
