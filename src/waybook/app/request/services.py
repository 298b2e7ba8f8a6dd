"""Services and settings that all calls share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from waybook.app.request.background import CountsByOrg, LoopHealth, OrgSignal
from waybook.app.request.cpu_queue import CpuQueue
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.request.wait_queue import WaitingCalls
from waybook.integrations.llm_messages import Model
from waybook.notifications.delivery import ActionLinks, WebhookSender
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings
from waybook.store.accounts.last_used import LastUsed
from waybook.store.deliveries import WorkCount
from waybook.store.driver.bus import Bus
from waybook.store.driver.database import Database
from waybook.store.driver.leadership import Leadership
from waybook.store.parent_cache import ParentCache
from waybook.store.plans.load import StallCountRow

_PartT = TypeVar("_PartT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    database: Database
    settings: Settings = field(default_factory=Settings)
    stall_threshold: timedelta = timedelta(minutes=30)
    #: Function that returns the base URL of dashboard links. The URL changes when another process
    #: serves the dashboard.
    find_base_url: Callable[[], str] = lambda: Settings().base_url
    step_parents: ParentCache = field(default_factory=ParentCache)
    #: Maps jobs to their runs, as `step_parents` maps steps to their plans.
    job_parents: ParentCache = field(default_factory=ParentCache)
    cpu: CpuQueue = field(default_factory=CpuQueue)
    lease: timedelta = timedelta(minutes=15)
    notification_events: frozenset[str] = frozenset()
    webhook_sender: WebhookSender | None = None
    action_links: ActionLinks | None = None
    review_reminder: timedelta | None = timedelta(hours=24)
    delivery_requested: OrgSignal = field(default_factory=OrgSignal)
    render_requested: OrgSignal = field(default_factory=OrgSignal)
    leadership: Leadership = field(default_factory=Leadership)
    #: The configured embedding model. None for the built-in model.
    embedder: EmbeddingModel | None = None
    #: The server's language model, if any, and the maximum seconds of a request to the model.
    model: Model | None = None
    model_seconds: float = 55
    bus: Bus = field(default_factory=Bus)
    waiting: WaitingCalls = field(default_factory=WaitingCalls)
    rate_limit: TokenBuckets | None = None
    last_used: LastUsed = field(default_factory=LastUsed)
    loops: LoopHealth = field(default_factory=LoopHealth)
    stalls: CountsByOrg[StallCountRow] = field(default_factory=lambda: CountsByOrg(StallCountRow))
    work: CountsByOrg[WorkCount] = field(default_factory=lambda: CountsByOrg(WorkCount))
    #: Objects that `shared` returns, by class.
    parts: dict[type, Any] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return self.find_base_url()

    def shared(self, kind: type[_PartT], make: Callable[[], _PartT] | None = None) -> _PartT:
        """Return the object of this class that all calls share. It is created on first use.

        A command thus imports only the modules of the objects that it uses.
        """
        part: _PartT | None = self.parts.get(kind)
        return self.parts.setdefault(kind, (make or kind)()) if part is None else part
