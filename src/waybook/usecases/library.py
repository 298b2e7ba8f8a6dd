"""What search needs beside the rows: who makes vectors, what the server can do, what was swept."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from waybook.errors import EndpointFailed, Misconfigured
from waybook.research.embedding import Vector
from waybook.research.text_model import EmbeddingModel
from waybook.store import search
from waybook.store.backend import Backend
from waybook.store.database import Database, Results
from waybook.store.passages import Embeddings, PassageDraft
from waybook.store.search import QueryVector, Scope, SearchCapabilities
from waybook.store.sql import Statement
from waybook.usecases.portable_search import PortableSearch
from waybook.usecases.shipped_model import BuiltinEmbeddingModel
from waybook.usecases.vector_cache import DEFAULT_MAX_BYTES, VectorCache, make_vectors

log = logging.getLogger(__name__)


class SearchBackend:
    def __init__(
        self,
        model: EmbeddingModel | None = None,
        *,
        backend: str = "auto",
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Search with vectors of this model, or of the one that comes with us.

        `backend` is where vectors are ranked, or `auto` for the best there is; `max_bytes` how
        much memory the embeddings of all orgs may take.
        """
        self.model: EmbeddingModel = model or BuiltinEmbeddingModel()
        #: For each org since when there may be something that is not indexed.
        self.swept: dict[UUID, datetime] = {}
        #: How often writing the vector of a passage of an org broke the connection.
        self.broken: Counter[tuple[UUID, str, int]] = Counter()
        self.cache = VectorCache(max_bytes)
        self._backend = backend
        self._abilities: SearchCapabilities | None = None

    def pending_statements(self) -> list[Statement]:
        """What is still to be asked of the server, for who has a message to send anyway."""
        return [] if self._abilities else [search.capabilities_statement()]

    def store_capabilities(self, answers: Results) -> None:
        """Remember the answer to `unasked`, if something was."""
        for rows in answers:
            self._abilities = search.read_capabilities(rows, self._backend)

    async def capabilities(self, database: Database, org_id: UUID) -> SearchCapabilities:
        """What the server can do for search; asked once, for it stays so while we run."""
        if self._abilities is None:
            (rows,) = await database.read_org(org_id, search.capabilities_statement())
            self._abilities = search.read_capabilities(rows, self._backend)
        return self._abilities

    async def check(self, database: Database, org_id: UUID) -> None:
        """Raise Misconfigured if the backend was named that the server does not have."""
        if self._backend != Backend.PGVECTOR:
            return
        (rows,) = await database.read_org(org_id, search.capabilities_statement())
        if search.read_capabilities(rows).backend is not Backend.PGVECTOR:
            raise Misconfigured(
                "search_vectors is pgvector, but this PostgreSQL has no extension vector of 0.8 or "
                "later: run create extension vector there and then waybook migrate, or set "
                "search_vectors to auto"
            )

    async def warm(self) -> None:
        """Load what the first search would have to wait for."""
        await self.model.warm()
        await asyncio.to_thread(make_vectors)

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector] | None:
        """A vector for each text; None if they cannot be had right now."""
        try:
            return await self.model.vectors(texts)
        except EndpointFailed as error:
            log.info("search goes by words alone for now: %s", error)
            return None

    async def embed_passages(
        self, pieces: Sequence[PassageDraft], abilities: SearchCapabilities
    ) -> Embeddings | None:
        """The vectors of these pieces, where the server keeps any and they can be had now."""
        if abilities.backend is None or not pieces:
            return None
        made = await self.embed_texts([piece.embedding_text for piece in pieces])
        return Embeddings(self.model.name, made, abilities.backend) if made is not None else None

    def portable_search(
        self, database: Database, meant: QueryVector, scope: Scope
    ) -> PortableSearch:
        """Return a search by meaning that is ranked in this process."""
        return PortableSearch(self.cache, database, meant, scope)
