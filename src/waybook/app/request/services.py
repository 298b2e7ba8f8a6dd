"""Services that all calls share, including the search backend and the built-in embedding model."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from waybook.app.request.cpu_queue import CpuQueue
from waybook.app.request.definition_cache import DefinitionCache
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.loop_health import LoopHealth
from waybook.app.request.org_signal import OrgSignal
from waybook.app.request.portable_search import PortableSearch
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.request.stall_counts import StallCounts, WorkCounts
from waybook.app.request.vector_cache import DEFAULT_MAX_BYTES, VectorCache, make_vectors
from waybook.app.request.wait_queue import WaitingCalls
from waybook.app.skills.skill import Skill
from waybook.errors import EndpointFailed, Misconfigured
from waybook.integrations.llm_messages import Model
from waybook.notifications.action_links import ActionLinks
from waybook.notifications.message import WebhookSender
from waybook.research.embedding import EmbeddingModel, StaticEmbedder, Vector, builtin_embedder
from waybook.settings import Settings
from waybook.store.accounts.writer import LastUsed
from waybook.store.driver.bus import Bus
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.leadership import Leadership
from waybook.store.driver.queries import Statement
from waybook.store.driver.replica import Replica
from waybook.store.plans.cache import ParentCache, PlanCache
from waybook.store.research import search
from waybook.store.research.artifacts import Backend, Embeddings, PassageDraft
from waybook.store.research.search import QueryVector, Scope, SearchCapabilities
from waybook.store.runs.slots import RunCache
from waybook.store.short_ids import ShortIdCache


class BuiltinEmbeddingModel:
    """The built-in embedding model. It gives the same vectors on every machine."""

    name = StaticEmbedder.model

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        return await asyncio.to_thread(_all, texts)

    async def warm(self) -> None:
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
        """Create a search backend with this embedding model, or with the built-in one.

        `backend` selects how vectors are ranked; `auto` selects the best available way. `max_bytes`
        limits the memory for the embeddings of all orgs.
        """
        self.model: EmbeddingModel = model or BuiltinEmbeddingModel()
        #: Time up to which all rows of an org are indexed.
        self.swept: dict[UUID, datetime] = {}
        #: Number of broken database connections while each passage's vector was written.
        self.broken: Counter[tuple[UUID, str, int]] = Counter()
        self.cache = VectorCache(max_bytes)
        self._backend = backend
        self._abilities: SearchCapabilities | None = None

    def pending_statements(self) -> list[Statement]:
        """Return the query for the search capabilities, unless they are known."""
        return [] if self._abilities else [search.capabilities_statement()]

    def store_capabilities(self, answers: Results) -> None:
        for rows in answers:
            self._abilities = search.read_capabilities(rows, self._backend)

    async def capabilities(self, database: Database, org_id: UUID) -> SearchCapabilities:
        """Return the database's search capabilities. They are queried once."""
        if self._abilities is None:
            (rows,) = await database.read_org(org_id, search.capabilities_statement())
            self._abilities = search.read_capabilities(rows, self._backend)
        return self._abilities

    async def check(self, database: Database, org_id: UUID) -> None:
        """Raise `Misconfigured` if the settings require a backend that the database lacks."""
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
        """Load the embedding model and libraries, so that the first search is not slow."""
        await self.model.warm()
        await asyncio.to_thread(make_vectors)

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector] | None:
        """Return a vector for each text. None if the embedding model is unavailable."""
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


def default_base_url() -> str:
    return Settings().base_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    database: Database
    #: Read replica for the dashboard. None if not configured.
    replica: Replica | None = None
    skills: tuple[Skill, ...] = ()
    stall_threshold: timedelta = timedelta(minutes=30)
    #: Returns the base URL of dashboard links. It changes when another process starts to serve the
    #: dashboard.
    find_base_url: Callable[[], str] = default_base_url
    step_parents: ParentCache = field(default_factory=ParentCache)
    plan_cache: PlanCache = field(default_factory=PlanCache)
    run_cache: RunCache = field(default_factory=RunCache)
    #: Maps each job to its run. `step_parents` maps each step to its plan.
    job_parents: ParentCache = field(default_factory=ParentCache)
    definition_cache: DefinitionCache = field(default_factory=DefinitionCache)
    short_ids: ShortIdCache = field(default_factory=ShortIdCache)
    search_backend: SearchBackend = field(default_factory=SearchBackend)
    #: Worker process that draws large diagrams.
    layout_worker: LayoutWorker = field(default_factory=LayoutWorker)
    cpu: CpuQueue = field(default_factory=CpuQueue)
    lease: timedelta = timedelta(minutes=15)
    #: Events that trigger a notification, and the sender. None without a webhook.
    notification_events: frozenset[str] = frozenset()
    webhook_sender: WebhookSender | None = None
    #: Settings of the links in notifications with which a person can answer. None for no links.
    action_links: ActionLinks | None = None
    #: Time after which an undecided review is overdue. None if reviews have no deadline.
    review_reminder: timedelta | None = timedelta(hours=24)
    #: Orgs with undelivered notifications stored by this process.
    delivery_requested: OrgSignal = field(default_factory=OrgSignal)
    #: Orgs with documents that are ready to render.
    render_requested: OrgSignal = field(default_factory=OrgSignal)
    #: Whether this process does the periodic background work for all orgs.
    leadership: Leadership = field(default_factory=Leadership)
    #: The server's language model, and the maximum seconds of a request. None if agents use their
    #: own models.
    model: Model | None = None
    model_seconds: float = 55
    bus: Bus = field(default_factory=Bus)
    waiting: WaitingCalls = field(default_factory=WaitingCalls)
    #: Rate limiter of orgs. None if calls are not limited.
    rate_limit: TokenBuckets | None = None
    #: Last uses of API tokens that are not written yet.
    last_used: LastUsed = field(default_factory=LastUsed)
    loops: LoopHealth = field(default_factory=LoopHealth)
    #: Stalled plans and steps at the last background check.
    stalls: StallCounts = field(default_factory=StallCounts)
    #: Open work of each org at the last background check.
    work: WorkCounts = field(default_factory=WorkCounts)

    @property
    def base_url(self) -> str:
        return self.find_base_url()
