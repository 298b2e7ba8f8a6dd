"""What is left of what was erased: sealed records, each upon the one before it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

from waybook.record.moment import rfc3339
from waybook.store.audit import GENESIS, ChainHead
from waybook.store.sql import load

SQL = load("tombstones")


class Tombstone(NamedTuple):
    """What an erasure left of one chain: how long it was, and its seal before and after."""

    subject: str
    subject_id: str
    entries: int
    seal_before: bytes
    #: None where the chain is gone.
    seal_after: bytes | None = None


class Erasure(NamedTuple):
    """One erasure, as it is stored."""

    number: int
    at: datetime
    by: str
    what: str
    who: str | None
    #: Rows by table, as JSON.
    counts: str
    hash: bytes = b""
    tombstones: tuple[Tombstone, ...] = ()


def seal_of(erasure: Erasure, previous: bytes) -> bytes:
    """The hash of an erasure upon the one before it: over all it says, its tombstones included."""
    said: list[bytes | str] = [str(erasure.number), rfc3339(erasure.at), erasure.by, erasure.what]
    said += [erasure.who if erasure.who is not None else "\x00", erasure.counts]
    for stone in sorted(erasure.tombstones, key=lambda stone: stone.subject_id):
        said += [stone.subject, stone.subject_id, str(stone.entries), stone.seal_before]
        said.append(stone.seal_after if stone.seal_after is not None else "\x00")
    digest = sha256(previous)
    for part in said:
        told = part.encode() if isinstance(part, str) else part
        digest.update(len(told).to_bytes(8, "big"))
        digest.update(told)
    return digest.digest()


def seal_erasure(erasure: Erasure, head: ChainHead) -> Erasure:
    """The erasure behind the end of its org's chain, numbered and sealed."""
    numbered = erasure._replace(number=head.seq + 1)
    return numbered._replace(hash=seal_of(numbered, head.hash))


def first_broken(erasures: Sequence[Erasure], head: ChainHead | None) -> tuple[int, str] | None:
    """The number of the first erasure that does not belong, and why; None if all do.

    `head` is where the chain should end, as the org's own row says, if there still is one.
    """
    previous = GENESIS
    for expected, erasure in enumerate(erasures, start=1):
        if erasure.number != expected:
            return expected, f"erasure {expected} is missing; the next one is {erasure.number}"
        if seal_of(erasure, previous) != erasure.hash:
            said = f"erasure {expected} does not match its seal: it or a tombstone was changed"
            return expected, said
        previous = erasure.hash
    return _wrong_end(len(erasures), previous, head) if head is not None else None


def _wrong_end(found: int, last: bytes, head: ChainHead) -> tuple[int, str] | None:
    if found < head.seq:
        return found + 1, f"erasure {found + 1} is missing: {head.seq} were written"
    if found > head.seq:
        return head.seq + 1, f"erasure {head.seq + 1} was added from outside: {head.seq} are known"
    if last != head.hash:
        return found, f"erasure {found} is not the one that was written last: its seal is another"
    return None


def read_erasures(
    erasures: Iterable[tuple[Any, ...]], tombstones: Iterable[tuple[Any, ...]]
) -> list[Erasure]:
    """Erasures with their tombstones, as the queries here bring them."""
    stones = {
        number: tuple(_stone(row) for row in rows)
        for number, rows in groupby(tombstones, key=lambda row: row[0])
    }
    return [
        Erasure(
            number, at.astimezone(UTC), by, what, who, counts, bytes(digest), stones.pop(number, ())
        )
        for number, at, by, what, who, counts, digest in erasures
    ]


def read_head(rows: Sequence[tuple[Any, ...]]) -> ChainHead | None:
    """Where the chain of erasures should end."""
    return next(_heads(rows), None)


def _heads(rows: Sequence[tuple[Any, ...]]) -> Iterator[ChainHead]:
    return (ChainHead(number, bytes(digest) if digest else GENESIS) for number, digest in rows)


def _stone(row: tuple[Any, ...]) -> Tombstone:
    _, subject, subject_id, entries, before, after = row
    return Tombstone(subject, subject_id, entries, bytes(before), bytes(after) if after else None)
