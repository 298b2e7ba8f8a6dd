"""Services that all calls share, and signals, health and counts of the background loops."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from waybook.app.request.cpu_queue import CpuQueue
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.request.wait_queue import WaitingCalls
from waybook.errors import WaybookError
from waybook.integrations.llm_messages import Model
from waybook.notifications.delivery import ActionLinks, WebhookSender
from waybook.redaction import redact
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings
from waybook.store.accounts.accounts import LastUsed
from waybook.store.deliveries import WorkCount
from waybook.store.driver.bus import Bus
from waybook.store.driver.database import Database
from waybook.store.driver.leadership import Leadership
from waybook.store.parent_cache import ParentCache
from waybook.store.plans.load import StallCountRow

MAX_FAILURES_IN_A_ROW = 5
_MAX_ERROR_LENGTH = 200


@dataclass(slots=True)
class LoopHealth:
    """Number of consecutive failures of each background loop. A success resets the number."""

    failures: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def note_failure(self, loop: str, error: Exception) -> int:
        self.failures[loop] = self.failures.get(loop, 0) + 1
        # Keep only the messages of Waybook's own errors. Other messages may contain data of an org,
        # so only the log contains them.
        message = str(error) if isinstance(error, WaybookError) else ""
        message = redact(" ".join(message.split()))[:_MAX_ERROR_LENGTH]
        self.errors[loop] = (
            f"{type(error).__name__}: {message}" if message else type(error).__name__
        )
        return self.failures[loop]

    def note_success(self, loop: str) -> None:
        self.failures.pop(loop, None)
        self.errors.pop(loop, None)


class OrgSignal:
    """The orgs that have new work for a background loop of this process.

    >>> signal, org_id = OrgSignal(), UUID(int=1)
    >>> signal.add(org_id)
    >>> signal.is_set(), signal.take(), signal.is_set()
    (True, {UUID('00000000-0000-0000-0000-000000000001')}, False)
    """

    def __init__(self) -> None:
        self._orgs: set[UUID] = set()
        self._event = asyncio.Event()

    def add(self, org_id: UUID) -> None:
        self._orgs.add(org_id)
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def take(self) -> set[UUID]:
        orgs, self._orgs = self._orgs, set()
        self._event.clear()
        return orgs

    async def wait(self, at_most_seconds: float) -> set[UUID]:
        """Wait until an org is added or the time is over. Return the orgs and remove them."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), at_most_seconds)
        return self.take()


_CountT = TypeVar("_CountT", bound=tuple[int, ...])


class CountsByOrg(Generic[_CountT]):
    """Counts of open or stalled work by org. A background loop updates them for the metrics."""

    def __init__(self, kind: Callable[..., _CountT]) -> None:
        self._kind = kind
        self.by_org: dict[UUID, _CountT] = {}
        self.is_counted = False

    def put(self, org_id: UUID, count: _CountT) -> None:
        self.by_org[org_id] = count
        self.is_counted = True

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> _CountT:
        return self._kind(*map(sum, zip(*self.by_org.values(), strict=True)))


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
