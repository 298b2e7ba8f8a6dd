"""What every call shares."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from waybook.endpoints.question import Model
from waybook.notices.letter import WebhookSender
from waybook.store.bus import Bus
from waybook.store.database import Database
from waybook.store.last_used import LastUsed
from waybook.store.memory import PlanCache
from waybook.store.whereabouts import ParentCache
from waybook.usecases.charts import DefinitionCache
from waybook.usecases.cpu_queue import CpuQueue
from waybook.usecases.draughting import LayoutWorker
from waybook.usecases.library import SearchBackend
from waybook.usecases.loop_health import LoopHealth
from waybook.usecases.rate_limit import TokenBuckets
from waybook.usecases.skills import Skill


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
