"""What every call shares."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from waybook.endpoints.question import Model
from waybook.notices.letter import Postman
from waybook.store.bus import Bus
from waybook.store.database import Database
from waybook.store.last_used import LastUsed
from waybook.store.memory import PlanMemory
from waybook.store.whereabouts import Whereabouts
from waybook.usecases.charts import Charts
from waybook.usecases.cpu_queue import CpuQueue
from waybook.usecases.draughting import Draughtsman
from waybook.usecases.library import Library
from waybook.usecases.loop_health import LoopHealth
from waybook.usecases.rate_limit import RateLimit
from waybook.usecases.skills import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What every call shares: the database, the skills, the patience, where people look."""

    database: Database
    skills: tuple[Skill, ...] = ()
    patience: timedelta = timedelta(minutes=30)
    base_url: str = "http://127.0.0.1:8750"
    whereabouts: Whereabouts = field(default_factory=Whereabouts)
    memory: PlanMemory = field(default_factory=PlanMemory)
    #: Where jobs are, as `whereabouts` is for steps.
    job_places: Whereabouts = field(default_factory=Whereabouts)
    charts: Charts = field(default_factory=Charts)
    library: Library = field(default_factory=Library)
    #: Who draws large maps.
    draughtsman: Draughtsman = field(default_factory=Draughtsman)
    cpu: CpuQueue = field(default_factory=CpuQueue)
    #: How long a claimed job is its holder's without a sign of life.
    lease: timedelta = timedelta(minutes=15)
    #: The events somebody is told of, and who tells them; none unless that is configured.
    tells: frozenset[str] = frozenset()
    postman: Postman | None = None
    #: Set when there is something to tell.
    to_deliver: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set when there is something to render.
    to_render: asyncio.Event = field(default_factory=asyncio.Event)
    #: A model that may be asked from here, and for how long; without one, agents use their own.
    model: Model | None = None
    model_seconds: float = 55
    #: Where changes are made known, once they are committed.
    bus: Bus = field(default_factory=Bus)
    #: How often an org may call; as often as it likes, if nothing is said.
    rate_limit: RateLimit | None = None
    #: Which tokens were used, until it is written.
    last_used: LastUsed = field(default_factory=LastUsed)
    #: Background loops that fail at present.
    loops: LoopHealth = field(default_factory=LoopHealth)
