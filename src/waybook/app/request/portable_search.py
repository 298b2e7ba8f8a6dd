"""Semantic search without a database extension: SQL statements, and ranking in memory."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from waybook.app.request.vector_cache import Held, VectorCache, Vectors, rank_packed
from waybook.research.fusion import RankedPassage
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement
from waybook.store.research import embeddings
from waybook.store.research.embeddings import FIRST, PAGE_ROWS, RECORD_BYTES
from waybook.store.research.search import (
    MAX_RANKED,
    MAX_UNINDEXED_SCAN,
    QueryVector,
    Scope,
    filters,
)

#: Number of nearest passages that the search examines first, if most passages match the filters. If
#: too few of them match, the search multiplies this number by `WIDER` and tries again.
CANDIDATES = 1_000
WIDER = 4


@dataclass(slots=True)
class PortableSearch:
    """Search in one org: execute the statements of `begin`, then pass their results to `finish`."""

    cache: VectorCache
    database: Database
    query_vector: QueryVector
    scope: Scope
    _held: Held = field(init=False, default_factory=Held)
    #: Version of the cached vectors since which `begin` requests the changes; None if `begin`
    #: requests no changes.
    _base: int | None = field(init=False, default=None)

    async def begin(self) -> list[Statement]:
        """Return the SQL statements that the search needs; load embeddings not yet cached."""
        model, scope = self.query_vector.model, self.scope
        if scope.plan_id is not None:
            return [
                embeddings.among_statement(
                    model, scope.plan_id, MAX_UNINDEXED_SCAN, **filters(scope)
                )
            ]
        self._held = await self.cache.get(self.database, self._owner)
        statements: list[Statement] = []
        if self._held.vectors is not None and self._held.snapshot is not None:
            self._base, since = self._held.version, self._held.snapshot.running
            is_cluster = await self.database.is_cluster()
            statements += embeddings.changes_statements(model, since, is_cluster=is_cluster)
        if self._narrowed:
            statements.append(embeddings.few_fitting_statement(model, **filters(scope)))
        return statements

    async def finish(self, results: Results) -> list[RankedPassage]:
        """Return the passages nearest to the query, best first."""
        if self.scope.plan_id is not None:
            return await self._rank(embeddings.read_packed(results[0]))
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
        if self._narrowed:
            return await self._filtered(vectors)
        return await asyncio.to_thread(vectors.nearest, self.query_vector.vector, MAX_RANKED)

    @property
    def _owner(self) -> tuple[UUID, str]:
        return self.query_vector.org_id, self.query_vector.model

    @property
    def _narrowed(self) -> bool:
        return any(value is not None for value in filters(self.scope).values())

    async def _rank(self, packed: bytes) -> list[RankedPassage]:
        return await asyncio.to_thread(rank_packed, packed, self.query_vector.vector, MAX_RANKED)

    async def _filtered(self, vectors: Vectors) -> list[RankedPassage]:
        """Rank the cached vectors; take more candidates until enough of them match the filters."""
        most = CANDIDATES
        while True:
            near = await asyncio.to_thread(vectors.nearest, self.query_vector.vector, most)
            statement = embeddings.which_fit_statement(near, **filters(self.scope))
            (rows,) = await self.database.read_org(self.query_vector.org_id, statement)
            fitting = embeddings.read_which_fit(rows, near)
            if len(fitting) >= MAX_RANKED or len(near) < most:
                return fitting[:MAX_RANKED]
            most *= WIDER

    async def _stream(self) -> list[RankedPassage]:
        """Rank all embeddings page by page, because they do not fit into memory together."""
        best: list[RankedPassage] = []
        after = FIRST
        while True:
            statement = embeddings.fitting_page_statement(
                self.query_vector.model, after, **filters(self.scope)
            )
            (rows,) = await self.database.read_org(self.query_vector.org_id, statement)
            packed = embeddings.read_packed(rows)
            best = sorted([*best, *await self._rank(packed)], key=_best_first)[:MAX_RANKED]
            if len(packed) < PAGE_ROWS * RECORD_BYTES:
                return best
            after = embeddings.last_key(packed)


def _best_first(passage: RankedPassage) -> tuple[float, str, int]:
    return -passage.measure, passage.subject_id, passage.part
