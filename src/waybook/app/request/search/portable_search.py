"""Semantic search without a database extension: SQL statements, and ranking in memory.

The cache keeps only a few bits of each vector. The best candidates are then ranked by their exact
embeddings.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from waybook.app.request.search.vector_cache import Held, VectorCache, Vectors, rank_packed
from waybook.research.fusion import RankedPassage
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement
from waybook.store.research import embeddings
from waybook.store.research.embeddings import EXACT_RECORD_BYTES, FIRST, PAGE_ROWS
from waybook.store.research.search import (
    MAX_RANKED,
    MAX_UNINDEXED_SCAN,
    QueryVector,
    Scope,
    filters,
)

MIN_CANDIDATES = 4 * MAX_RANKED
#: A search in a large org takes one candidate for this number of vectors.
VECTORS_PER_CANDIDATE = 1_000
#: Maximum number of vectors that are ranked before the database is asked.
MAX_RANKED_FIRST = 16_384
#: Maximum number of embeddings that are ranked without a thread.
MAX_INLINE_RECORDS = 512
#: Number of nearest passages to examine. If too few match the filters, `WIDER` times as many are
#: examined.
CANDIDATES = 1_000
WIDER = 4


@dataclass(slots=True)
class PortableSearch:
    """Search in one org. Execute the statements of `begin`, then pass their results to `finish`."""

    cache: VectorCache
    database: Database
    query_vector: QueryVector
    scope: Scope
    _held: Held = field(init=False, default_factory=Held)
    _base: int | None = field(init=False, default=None)
    _candidates: asyncio.Future[bytes] | None = field(init=False, default=None)
    _requested: bool = field(init=False, default=False)
    _added: bytes = field(init=False, default=b"")

    async def begin(self) -> list[Statement]:
        """Return the statements of the search. Embeddings that are not cached are loaded first."""
        model, scope = self.query_vector.model, self.scope
        if scope.plan_id is not None:
            return [
                embeddings.among_statement(
                    model, scope.plan_id, MAX_UNINDEXED_SCAN, **filters(scope)
                )
            ]
        self._held = await self.cache.get(self.database, self._owner)
        statements: list[Statement] = []
        vectors, snapshot = self._held.vectors, self._held.snapshot
        if vectors is not None and snapshot is not None:
            self._base, since = self._held.version, snapshot.running
            is_cluster = await self.database.is_cluster()
            statements += embeddings.changes_statements(model, since, is_cluster=is_cluster)
            if not self._narrowed:
                self._candidates = self._find_candidates(vectors, _wanted(vectors))
                if len(vectors) <= MAX_RANKED_FIRST:
                    keys = await self._candidates
                    statements.append(embeddings.nearest_statement(model, keys))
                    self._requested = True
        if self._narrowed:
            statements.append(embeddings.few_fitting_statement(model, **filters(scope)))
        return statements

    async def finish(self, results: Results) -> list[RankedPassage]:
        if self.scope.plan_id is not None:
            return await self._rank(embeddings.read_packed(results[0]))
        vectors = await self._update(results)
        if self._narrowed:
            few = embeddings.read_few_fitting(results[-1])
            if few is not None:
                return await self._rank(few)
        if vectors is None:
            return await self._stream()
        if self._narrowed:
            return await self._filtered(vectors)
        exact = await self._read_nearest(vectors, results) + self._added
        if len(exact) <= MAX_INLINE_RECORDS * EXACT_RECORD_BYTES:
            return rank_packed(exact, self.query_vector.vector, MAX_RANKED)
        return await self._rank(exact)

    @property
    def _owner(self) -> tuple[UUID, str]:
        return self.query_vector.org_id, self.query_vector.model

    @property
    def _narrowed(self) -> bool:
        return any(value is not None for value in filters(self.scope).values())

    async def _update(self, results: Results) -> Vectors | None:
        if self._base is None:
            return None
        changes = embeddings.read_changes(*results[:2])
        if changes.complete and not changes.deleted and self._held.continues(changes.snapshot):
            self._added = changes.added
        else:
            self._candidates = None
        return await self.cache.update(self.database, self._owner, self._held, self._base, changes)

    async def _read_nearest(self, vectors: Vectors, results: Results) -> bytes:
        if self._candidates is not None and self._requested:
            return embeddings.read_packed(results[2])
        candidates = self._candidates or self._find_candidates(vectors, _wanted(vectors))
        return await self._read(
            embeddings.nearest_statement(self.query_vector.model, await candidates)
        )

    def _find_candidates(self, vectors: Vectors, most: int) -> asyncio.Future[bytes]:
        # Unlike a task, the future of an executor may be dropped if the statements fail.
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(None, vectors.candidates, self.query_vector.vector, most)

    async def _rank(self, packed: bytes) -> list[RankedPassage]:
        return await asyncio.to_thread(rank_packed, packed, self.query_vector.vector, MAX_RANKED)

    async def _read(self, statement: Statement) -> bytes:
        (rows,) = await self.database.read_org(self.query_vector.org_id, statement)
        return embeddings.read_packed(rows)

    async def _filtered(self, vectors: Vectors) -> list[RankedPassage]:
        """Rank the cached vectors, with more candidates until enough of them match the filters."""
        model, wanted, most = self.query_vector.model, _wanted(vectors), CANDIDATES
        while True:
            keys = await self._find_candidates(vectors, most)
            exact = await self._read(
                embeddings.nearest_fitting_statement(model, keys, wanted, **filters(self.scope))
            )
            has_enough = len(exact) >= wanted * EXACT_RECORD_BYTES
            if has_enough or len(keys) < most * embeddings.KEY_BYTES:
                return await self._rank(exact)
            most *= WIDER

    async def _stream(self) -> list[RankedPassage]:
        """Rank all embeddings page by page, because they do not fit into memory."""
        best: list[RankedPassage] = []
        after = FIRST
        while True:
            packed = await self._read(
                embeddings.fitting_page_statement(
                    self.query_vector.model, after, **filters(self.scope)
                )
            )
            best = sorted([*best, *await self._rank(packed)], key=_best_first)[:MAX_RANKED]
            if len(packed) < PAGE_ROWS * EXACT_RECORD_BYTES:
                return best
            after = embeddings.last_key(packed, EXACT_RECORD_BYTES)


def _wanted(vectors: Vectors) -> int:
    return max(MIN_CANDIDATES, len(vectors) // VECTORS_PER_CANDIDATE)


def _best_first(passage: RankedPassage) -> tuple[float, str, int]:
    return -passage.measure, passage.subject_id, passage.part
