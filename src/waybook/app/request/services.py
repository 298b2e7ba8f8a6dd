"""What every call shares.

The table of words that comes with us, loaded when it is first needed, off the event loop.

What search needs beside the rows: who makes vectors, what the server can do, what was swept.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from waybook.app.request.cpu_queue import CpuQueue
from waybook.app.request.definition_cache import DefinitionCache
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.loop_health import LoopHealth
from waybook.app.request.portable_search import PortableSearch
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.request.vector_cache import DEFAULT_MAX_BYTES, VectorCache, make_vectors
from waybook.app.skills.skill import Skill
from waybook.errors import EndpointFailed, Misconfigured
from waybook.integrations.llm_messages import Model
from waybook.notifications.message import WebhookSender
from waybook.research.embedding import EmbeddingModel, StaticEmbedder, Vector, builtin_embedder
from waybook.store.accounts.writer import LastUsed
from waybook.store.driver.bus import Bus
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement
from waybook.store.plans.cache import ParentCache, PlanCache
from waybook.store.research import search
from waybook.store.research.artifacts import Backend, Embeddings, PassageDraft
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities


class BuiltinEmbeddingModel:
    """Needs nothing and nobody; the same text gives the same vector everywhere."""

    name = StaticEmbedder.model

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, made in a thread."""
        return await asyncio.to_thread(_all, texts)

    async def warm(self) -> None:
        """Load the table."""
        await asyncio.to_thread(builtin_embedder)


def _all(texts: Sequence[str]) -> list[Vector]:
    return [*map(builtin_embedder().embed, texts)]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every call shares: the database, the skills, the patience, where people look."""

    database: Database
    skills: tuple[Skill, ...] = ()
    stall_threshold: timedelta = timedelta(minutes=30)
    base_url: str = "http://127.0.0.1:8750"
    step_parents: ParentCache = field(default_factory=ParentCache)
    plan_cache: PlanCache = field(default_factory=PlanCache)
    #: Where jobs are, as `whereabouts` is for steps.
    job_parents: ParentCache = field(default_factory=ParentCache)
    definition_cache: DefinitionCache = field(default_factory=DefinitionCache)
    search_backend: SearchBackend = field(default_factory=SearchBackend)
    #: Who draws large maps.
    layout_worker: LayoutWorker = field(default_factory=LayoutWorker)
    cpu: CpuQueue = field(default_factory=CpuQueue)
    #: How long a claimed job is its holder's without a sign of life.
    lease: timedelta = timedelta(minutes=15)
    #: The events somebody is told of, and who tells them; none unless that is configured.
    notification_events: frozenset[str] = frozenset()
    webhook_sender: WebhookSender | None = None
    #: Set when there is something to tell.
    delivery_requested: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set when there is something to render.
    render_requested: asyncio.Event = field(default_factory=asyncio.Event)
    #: A model that may be asked from here, and for how long; without one, agents use their own.
    model: Model | None = None
    model_seconds: float = 55
    #: Where changes are made known, once they are committed.
    bus: Bus = field(default_factory=Bus)
    #: How often an org may call; as often as it likes, if nothing is said.
    rate_limit: TokenBuckets | None = None
    #: Which tokens were used, until it is written.
    last_used: LastUsed = field(default_factory=LastUsed)
    #: Background loops that fail at present.
    loops: LoopHealth = field(default_factory=LoopHealth)
