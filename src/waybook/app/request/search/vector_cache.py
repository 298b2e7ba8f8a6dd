"""Caches embeddings by org, with a memory limit.

Each search also reads what other processes have added or deleted since the last read.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeAlias
from uuid import UUID

from waybook.research.fusion import RankedPassage
from waybook.store.driver.database import Database
from waybook.store.research import embeddings
from waybook.store.research.embeddings import FIRST, PAGE_ROWS, RECORD_BYTES, Changes, Snapshot

Owner: TypeAlias = tuple[UUID, str]

MEGABYTE = 1 << 20
DEFAULT_MAX_BYTES = 256 * MEGABYTE
#: An org without embeddings takes no bytes, so the number of cached orgs is limited too.
MAX_ORGS = 1_000
#: After a longer gap between updates, all vectors are loaded again, because deletions are recorded
#: for only two days.
MAX_GAP_SECONDS = 86_400.0
#: Seconds after which vectors that did not fit into memory are loaded again.
RETRY_SECONDS = 3_600.0


class Vectors(Protocol):
    """A vector index. The implementation is imported on first use."""

    @property
    def size_bytes(self) -> int: ...

    def __len__(self) -> int: ...

    def extend(self, packed: bytes) -> None: ...

    def change(self, added: bytes, deleted: bytes) -> None:
        """Remove the records with the deleted keys, then add new records."""

    def candidates(self, query: Sequence[float], most: int) -> bytes:
        """Return the keys of the vectors that are approximately nearest to the query."""


@dataclass(slots=True)
class Held:
    vectors: Vectors | None = None
    snapshot: Snapshot | None = None
    version: int = 0
    too_large_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def continues(self, later: Snapshot) -> bool:
        """Return whether later changes can be applied to the cache."""
        return (
            self.snapshot is not None
            and later.running >= self.snapshot.running
            and self.shares_history(later)
        )

    def shares_history(self, other: Snapshot) -> bool:
        """Return whether `other` is a recent snapshot of the same database without new erasures."""
        ours = self.snapshot
        return (
            ours is not None
            and (other.database, other.erasures) == (ours.database, ours.erasures)
            and other.at - ours.at < MAX_GAP_SECONDS
        )


class VectorCache:
    """Embeddings of many orgs. The least recently searched org is evicted first."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES, max_orgs: int = MAX_ORGS) -> None:
        self.max_bytes = max_bytes
        self.max_orgs = max_orgs
        self._held: OrderedDict[Owner, Held] = OrderedDict()
        self._loading = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        return sum(held.vectors.size_bytes for held in self._held.values() if held.vectors)

    async def get(self, database: Database, owner: Owner) -> Held:
        locked = self._held.setdefault(owner, Held())
        self._held.move_to_end(owner)
        if len(self._held) > self.max_orgs:
            self._held.popitem(last=False)
        if locked.vectors is None and locked.too_large_until <= _now():
            async with locked.lock:
                if locked.vectors is None and locked.too_large_until <= _now():
                    await self._load(database, owner, locked)
        return locked

    async def update(
        self, database: Database, owner: Owner, locked: Held, base: int, changes: Changes
    ) -> Vectors | None:
        """Update the cached embeddings of an org. Return None if they are too large."""
        snapshot = locked.snapshot
        if snapshot and not changes and locked.shares_history(changes.snapshot):
            running = max(snapshot.running, changes.snapshot.running)
            locked.snapshot = changes.snapshot._replace(running=running)
            return locked.vectors
        async with locked.lock:
            if locked.snapshot is not None and (
                locked.version != base or locked.snapshot.running > changes.snapshot.running
            ):
                # A concurrent search has updated the vectors, so read the changes since then.
                statements = embeddings.changes_statements(
                    owner[1], locked.snapshot.running, is_cluster=await database.is_cluster()
                )
                changes = embeddings.read_changes(*await database.read_org(owner[0], *statements))
            await self._apply(database, owner, locked, changes)
        return locked.vectors

    async def _apply(
        self, database: Database, owner: Owner, locked: Held, changes: Changes
    ) -> None:
        if locked.vectors is None or not changes.complete or not locked.continues(changes.snapshot):
            await self._load(database, owner, locked)
            return
        await asyncio.to_thread(locked.vectors.change, changes.added, changes.deleted)
        locked.version += 1
        locked.snapshot = changes.snapshot
        if locked.vectors.size_bytes > self.max_bytes:
            locked.vectors, locked.too_large_until = None, _now() + RETRY_SECONDS
        self._make_room(owner)

    async def _load(self, database: Database, owner: Owner, locked: Held) -> None:
        # Load one org at a time, because the memory limit does not count loads in progress.
        async with self._loading:
            await self._read_all(database, owner, locked)

    async def _read_all(self, database: Database, owner: Owner, locked: Held) -> None:
        org_id, model = owner
        vectors, after, snapshot = await asyncio.to_thread(make_vectors), FIRST, None
        while True:
            statements = embeddings.page_statements(model, after)
            packed, seen = embeddings.read_page(*await database.read_org(org_id, *statements))
            snapshot = snapshot or seen
            await asyncio.to_thread(vectors.extend, packed)
            if vectors.size_bytes > self.max_bytes:
                locked.vectors, locked.too_large_until = None, _now() + RETRY_SECONDS
                break
            if len(packed) < PAGE_ROWS * RECORD_BYTES:
                locked.vectors = vectors
                break
            after = embeddings.last_key(packed)
        locked.snapshot = snapshot
        locked.version += 1
        self._make_room(owner)

    def _make_room(self, owner: Owner) -> None:
        while self.size_bytes > self.max_bytes and len(self._held) > 1:
            oldest = next(iter(self._held))
            if oldest == owner:
                self._held.move_to_end(owner)
                continue
            del self._held[oldest]


def make_vectors() -> Vectors:
    """Return an empty vector index. Call this in a thread, because importing numpy takes time."""
    made: Vectors = _ranking().VectorIndex()
    return made


def rank_packed(packed: bytes, query: Sequence[float], most: int) -> list[RankedPassage]:
    if not packed:
        return []
    ranked: list[RankedPassage] = _ranking().rank_exactly(packed, query, most)
    return ranked


def _ranking() -> ModuleType:
    # Limit OpenBLAS to one thread, because its threads slow each other down on busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return import_module("waybook.research.ranking")


def _now() -> float:
    return asyncio.get_running_loop().time()
