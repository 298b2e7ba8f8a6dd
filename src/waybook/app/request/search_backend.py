"""Search by meaning: the embedding model, and vector search without a database extension.

This process ranks embeddings itself. It keeps the embeddings of recently searched orgs in memory,
up to a limit. Each search also reads the embeddings that other processes have added or deleted
since the last read.
"""

import asyncio
import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeAlias
from uuid import UUID

from waybook.app.request.services import Services
from waybook.errors import EndpointFailed
from waybook.research.embedding import (
    Backend,
    EmbeddingModel,
    StaticEmbedder,
    Vector,
    builtin_embedder,
)
from waybook.research.fusion import RankedPassage
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement, first_column
from waybook.store.research import embeddings, search
from waybook.store.research.artifacts import Embeddings, PassageDraft
from waybook.store.research.embeddings import FIRST, PAGE_ROWS, RECORD_BYTES, Changes, Snapshot
from waybook.store.research.search import (
    MAX_RANKED,
    MAX_UNINDEXED_SCAN,
    QueryVector,
    Scope,
    SearchCapabilities,
    filters,
)

log = logging.getLogger(__name__)

_Owner: TypeAlias = tuple[UUID, str]

MEGABYTE = 1 << 20
DEFAULT_MAX_BYTES = 256 * MEGABYTE
#: Maximum number of cached orgs. The limit in bytes does not count orgs without embeddings.
_MAX_ORGS = 1_000
#: If the last update of the vectors is older than this, all vectors are loaded again, because
#: deletions are recorded for only two days.
_MAX_GAP_SECONDS = 86_400.0
#: Seconds to wait before trying again to load vectors that did not fit into memory.
_RETRY_SECONDS = 3_600.0
#: Number of nearest passages to examine. If too few match the filters, `_WIDER` times as many are
#: examined.
CANDIDATES = 1_000
_WIDER = 4


class _Vectors(Protocol):
    """A vector index. The implementation is imported on first use."""

    @property
    def size_bytes(self) -> int: ...

    def extend(self, blob: bytes) -> None: ...

    def change(self, added: bytes, deleted: bytes) -> None: ...

    def nearest(self, query: Sequence[float], most: int) -> list[RankedPassage]: ...


@dataclass(slots=True)
class Held:
    vectors: _Vectors | None = None
    snapshot: Snapshot | None = None
    too_large_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def continues(self, later: Snapshot) -> bool:
        """Return whether the changes up to `later` can be applied to the cached vectors."""
        return (
            self.snapshot is not None
            and later.running >= self.snapshot.running
            and self.shares_history(later)
        )

    def shares_history(self, other: Snapshot) -> bool:
        """Return whether the recorded changes turn the cached snapshot into `other`.

        They do not if the databases differ, an erasure lies between, or a day or more has passed.
        """
        ours = self.snapshot
        return (
            ours is not None
            and (other.database, other.erasures) == (ours.database, ours.erasures)
            and other.at - ours.at < _MAX_GAP_SECONDS
        )


class VectorCache:
    """Embeddings of many orgs. The least recently searched org is evicted first."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._held: OrderedDict[_Owner, Held] = OrderedDict()
        self._loading = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        return sum(held.vectors.size_bytes for held in self._held.values() if held.vectors)

    async def get(self, database: Database, owner: _Owner) -> Held:
        held = self._held.setdefault(owner, Held())
        self._held.move_to_end(owner)
        if len(self._held) > _MAX_ORGS:
            self._held.popitem(last=False)
        if held.vectors is None and held.too_large_until <= _now():
            async with held.lock:
                if held.vectors is None and held.too_large_until <= _now():
                    await self._load(database, owner, held)
        return held

    async def update(
        self, database: Database, owner: _Owner, held: Held, base: Snapshot, changes: Changes
    ) -> _Vectors | None:
        """Apply the changes since `base` to the cached vectors, and return the vectors.

        Return None if the org's embeddings are too large for the cache.
        """
        snapshot = held.snapshot
        if snapshot and not changes and held.shares_history(changes.snapshot):
            running = max(snapshot.running, changes.snapshot.running)
            held.snapshot = changes.snapshot._replace(running=running)
            return held.vectors
        async with held.lock:
            if held.snapshot is not None and held.snapshot is not base:
                # A concurrent search has updated the vectors, so read the changes since then.
                statements = await _changes_statements(database, owner[1], held.snapshot)
                changes = embeddings.read_changes(*await database.read_org(owner[0], *statements))
            if held.vectors is None or not changes.complete or not held.continues(changes.snapshot):
                await self._load(database, owner, held)
            else:
                await asyncio.to_thread(held.vectors.change, changes.added, changes.deleted)
                self._keep(owner, held, held.vectors, changes.snapshot)
        return held.vectors

    async def _load(self, database: Database, owner: _Owner, held: Held) -> None:
        org_id, model = owner
        # Load one org at a time, because the memory limit does not count loads in progress.
        async with self._loading:
            vectors, after, snapshot = await asyncio.to_thread(make_vectors), FIRST, None
            while True:
                statements = embeddings.page_statements(model, after)
                blob, seen = embeddings.read_page(*await database.read_org(org_id, *statements))
                snapshot = snapshot or seen
                await asyncio.to_thread(vectors.extend, blob)
                if vectors.size_bytes > self.max_bytes or len(blob) < PAGE_ROWS * RECORD_BYTES:
                    break
                after = embeddings.last_key(blob)
            self._keep(owner, held, vectors, snapshot)

    def _keep(self, owner: _Owner, held: Held, vectors: _Vectors, snapshot: Snapshot) -> None:
        held.vectors, held.snapshot = vectors, snapshot
        if vectors.size_bytes > self.max_bytes:
            held.vectors, held.too_large_until = None, _now() + _RETRY_SECONDS
        while self.size_bytes > self.max_bytes and len(self._held) > 1:
            oldest = next(iter(self._held))
            if oldest == owner:
                self._held.move_to_end(owner)
                continue
            del self._held[oldest]


async def _changes_statements(database: Database, model: str, since: Snapshot) -> list[Statement]:
    is_cluster = await database.is_cluster()
    return embeddings.changes_statements(model, since.running, is_cluster=is_cluster)


@dataclass(slots=True)
class PortableSearch:
    """Search in one org. Execute the statements of `begin`, then pass their results to `finish`."""

    cache: VectorCache
    database: Database
    query_vector: QueryVector
    scope: Scope
    _held: Held = field(init=False, default_factory=Held)
    _base: Snapshot | None = field(init=False, default=None)

    async def begin(self) -> list[Statement]:
        """Return the statements of the search. Embeddings that are not cached are loaded first."""
        model, scope = self.query_vector.model, self.scope
        if scope.plan_id is not None:
            among = embeddings.among_statement
            return [among(model, scope.plan_id, MAX_UNINDEXED_SCAN, **filters(scope))]
        self._held = await self.cache.get(self.database, self._owner)
        statements: list[Statement] = []
        if self._held.vectors is not None and self._held.snapshot is not None:
            self._base = self._held.snapshot
            statements += await _changes_statements(self.database, model, self._base)
        if self._narrowed:
            statements.append(embeddings.few_fitting_statement(model, **filters(scope)))
        return statements

    async def finish(self, results: Results) -> list[RankedPassage]:
        if self.scope.plan_id is not None:
            return await self._rank(embeddings.read_records(results[0]))
        vectors = None
        if self._base is not None:
            changes = embeddings.read_changes(*results[:2])
            vectors = await self.cache.update(
                self.database, self._owner, self._held, self._base, changes
            )
        if self._narrowed:
            few = embeddings.read_few_fitting(results[-1])
            if few is not None:
                return await self._rank(few)
        if vectors is None:
            return await self._stream()
        if not self._narrowed:
            return await asyncio.to_thread(vectors.nearest, self.query_vector.vector, MAX_RANKED)
        # Rank the nearest cached vectors, and then further ones until enough match the filters.
        most = CANDIDATES
        while True:
            ranked = await asyncio.to_thread(vectors.nearest, self.query_vector.vector, most)
            statement = embeddings.fitting_statement(ranked, MAX_RANKED, **filters(self.scope))
            (rows,) = await self.database.read_org(self.query_vector.org_id, statement)
            if len(rows) == MAX_RANKED or len(ranked) < most:
                return [ranked[place - 1] for place in first_column(rows)]
            most *= _WIDER

    @property
    def _owner(self) -> _Owner:
        return self.query_vector.org_id, self.query_vector.model

    @property
    def _narrowed(self) -> bool:
        return any(value is not None for value in filters(self.scope).values())

    async def _rank(self, blob: bytes) -> list[RankedPassage]:
        return await asyncio.to_thread(rank_records, blob, self.query_vector.vector, MAX_RANKED)

    async def _stream(self) -> list[RankedPassage]:
        """Rank all embeddings page by page, because they do not fit into memory."""
        best: list[RankedPassage] = []
        after = FIRST
        while True:
            statement = embeddings.fitting_page_statement(
                self.query_vector.model, after, **filters(self.scope)
            )
            (rows,) = await self.database.read_org(self.query_vector.org_id, statement)
            blob = embeddings.read_records(rows)
            best += await self._rank(blob)
            best.sort(key=lambda found: (-found.measure, found.subject_id, found.part))
            del best[MAX_RANKED:]
            if len(blob) < PAGE_ROWS * RECORD_BYTES:
                return best
            after = embeddings.last_key(blob)


def make_vectors() -> _Vectors:
    """Return an empty vector index. Call this in a thread, because importing numpy takes time."""
    made: _Vectors = _ranking().VectorIndex()
    return made


def rank_records(blob: bytes, query: Sequence[float], most: int) -> list[RankedPassage]:
    if not blob:
        return []
    ranked: list[RankedPassage] = _ranking().rank_exactly(blob, query, most)
    return ranked


def _ranking() -> ModuleType:
    # Limit OpenBLAS to one thread, because its threads slow each other down on busy cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return import_module("waybook.research.ranking")


def _now() -> float:
    return asyncio.get_running_loop().time()


class _BuiltinEmbeddingModel:
    name = StaticEmbedder.model

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        return await asyncio.to_thread(lambda: [*map(builtin_embedder().embed, texts)])

    async def warm(self) -> None:
        await asyncio.to_thread(builtin_embedder)


class SearchBackend:
    def __init__(self, model: EmbeddingModel | None = None, *, backend: str = "auto") -> None:
        """Use `model` or the built-in embedding model, and `backend` to rank vectors."""
        self.model: EmbeddingModel = model or _BuiltinEmbeddingModel()
        #: For each org, the time up to which all artifacts are indexed.
        self.swept: dict[UUID, datetime] = {}
        #: For each passage, how often the database connection broke while it was written.
        self.broken: Counter[tuple[UUID, str, int]] = Counter()
        self.cache = VectorCache()
        self._backend = backend
        self._abilities: SearchCapabilities | None = None

    async def capabilities(self, database: Database, org_id: UUID) -> SearchCapabilities:
        """Return the search methods of the database. Only the first call queries the database.

        Raises:
            Misconfigured: the settings require a backend that the database lacks.
        """
        if self._abilities is None:
            (rows,) = await database.read_org(org_id, search.SQL["search_capabilities"]())
            self._abilities = search.read_capabilities(rows, self._backend)
        return self._abilities

    async def check(self, database: Database, org_id: UUID) -> None:
        """Raise `Misconfigured` if the settings require a backend that the database lacks."""
        if self._backend == Backend.PGVECTOR:
            await self.capabilities(database, org_id)

    async def warm(self) -> None:
        """Load the embedding model and libraries, so that the first search is not slow."""
        await self.model.warm()
        await asyncio.to_thread(make_vectors)

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector for each text, or None if the embedding model is unavailable."""
        try:
            return await self.model.vectors(texts)
        except EndpointFailed as error:
            log.info("search uses only words for now, not meaning: %s", error)
            return None

    async def embed_passages(
        self, pieces: Sequence[PassageDraft], abilities: SearchCapabilities
    ) -> Embeddings | None:
        """Return the embeddings of these passages.

        Return None if the database cannot store them, or if the model is unavailable.
        """
        if abilities.backend is None or not pieces:
            return None
        made = await self.embed_texts([piece.embedding_text for piece in pieces])
        return Embeddings(self.model.name, made, abilities.backend) if made is not None else None


def search_backend(services: Services) -> SearchBackend:
    """Return the search backend of this process, as configured."""
    return services.shared(
        SearchBackend,
        lambda: SearchBackend(services.embedder, backend=services.settings.search_vectors),
    )
