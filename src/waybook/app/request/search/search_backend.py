"""Provides the search backend of the process and the built-in embedding model."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from waybook.app.request.search.portable_search import (
    DEFAULT_MAX_BYTES,
    MEGABYTE,
    PortableSearch,
    VectorCache,
    make_vectors,
)
from waybook.app.request.services import Services
from waybook.errors import EndpointFailed
from waybook.research.embedding import (
    Backend,
    EmbeddingModel,
    StaticEmbedder,
    Vector,
    builtin_embedder,
)
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement
from waybook.store.research import search
from waybook.store.research.artifacts import Embeddings, PassageDraft
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities

log = logging.getLogger(__name__)


class _BuiltinEmbeddingModel:
    name = StaticEmbedder.model

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        return await asyncio.to_thread(lambda: [*map(builtin_embedder().embed, texts)])

    async def warm(self) -> None:
        await asyncio.to_thread(builtin_embedder)


class SearchBackend:
    def __init__(
        self,
        model: EmbeddingModel | None = None,
        *,
        backend: str = "auto",
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Create a search backend with this embedding model, or with the built-in one.

        `backend` selects how vectors are ranked. `max_bytes` limits the memory for embeddings.
        """
        self.model: EmbeddingModel = model or _BuiltinEmbeddingModel()
        #: For each org, the time up to which all artifacts are indexed.
        self.swept: dict[UUID, datetime] = {}
        #: For each passage, how often the database connection broke while it was written.
        self.broken: Counter[tuple[UUID, str, int]] = Counter()
        self.cache = VectorCache(max_bytes)
        self._backend = backend
        self._abilities: SearchCapabilities | None = None

    def pending_statements(self) -> list[Statement]:
        """Return the query for the search methods of the database, if they are not known yet."""
        return [] if self._abilities else [search.SQL["search_capabilities"]()]

    def store_capabilities(self, answers: Results) -> None:
        for rows in answers:
            self._abilities = search.read_capabilities(rows, self._backend)

    async def capabilities(self, database: Database, org_id: UUID) -> SearchCapabilities:
        """Return the search methods of the database. Only the first call queries the database."""
        if self._abilities is None:
            (rows,) = await database.read_org(org_id, search.SQL["search_capabilities"]())
            self._abilities = search.read_capabilities(rows, self._backend)
        return self._abilities

    async def check(self, database: Database, org_id: UUID) -> None:
        """Raise `Misconfigured` if the settings require a backend that the database lacks."""
        if self._backend != Backend.PGVECTOR:
            return
        (rows,) = await database.read_org(org_id, search.SQL["search_capabilities"]())
        search.read_capabilities(rows, self._backend)

    async def warm(self) -> None:
        """Load the embedding model and libraries, so that the first search is not slow."""
        await self.model.warm()
        await asyncio.to_thread(make_vectors)

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector for each text, or None if the embedding model is unavailable."""
        try:
            return await self.model.vectors(texts)
        except EndpointFailed as error:
            log.info("search goes by words alone for now: %s", error)
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

    def portable_search(
        self, database: Database, query_vector: QueryVector, scope: Scope
    ) -> PortableSearch:
        return PortableSearch(self.cache, database, query_vector, scope)


def search_backend(services: Services) -> SearchBackend:
    """Return the search backend of this process, as configured."""
    settings = services.settings
    return services.shared(
        SearchBackend,
        lambda: SearchBackend(
            services.embedder,
            backend=settings.search_vectors,
            max_bytes=settings.search_memory_mb * MEGABYTE,
        ),
    )
