"""The bus: whoever changes a plan or a run says so here, and whoever wants to know is told.

To publish is to note something and to wake somebody: nothing is sent, nobody is waited for. What
happens in this process is told at once; `post` brings it to the others, and theirs to us. Every
subscriber hears of one org only.

A feed: the topics of which somebody has not heard yet, for one who reads in their own time.
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias
from uuid import UUID

from waybook.core.events import ChangeEvent, event_topics, merge_events

SubjectKey: TypeAlias = tuple[UUID, str, str]

#: News that may wait to be sent to other processes; what is too much, they find by looking.
MAX_QUEUED = 10_000
#: News that are remembered for whoever was away for a moment.
MAX_REPLAYED = 2_000
#: Plans and runs of which it is known how far their news were told.
MAX_TRACKED_SUBJECTS = 10_000
#: Orgs whose news are counted; whoever comes back after that hears that anything may have changed.
MAX_TRACKED_ORGS = 10_000


class Subscriber(Protocol):
    """Somebody who wants to know. None of these may wait or fail."""

    def on_event(self, event: ChangeEvent, /) -> None:
        """Something changed."""

    def on_gap(self) -> None:
        """Anything may have changed."""

    def on_close(self) -> None:
        """There will be no more news: the process stops."""


class Bus:
    def __init__(self) -> None:
        """A bus nobody listens to yet."""
        #: The name of this process among others.
        self.sender = secrets.token_hex(4)
        #: Set while there is something to send to other processes.
        self.has_outgoing = asyncio.Event()
        #: Set once there is somebody to listen for.
        self.is_wanted = asyncio.Event()
        #: Set when an org has its first subscriber: for whoever looks for news, to look now.
        self.has_newcomers = asyncio.Event()
        self._outgoing: dict[SubjectKey, ChangeEvent] = {}
        self._subscribers: dict[UUID, list[Subscriber]] = {}
        self._known: OrderedDict[SubjectKey, int] = OrderedDict()
        self._told: deque[tuple[UUID, ChangeEvent]] = deque(maxlen=MAX_REPLAYED)
        #: How much each org was told. It begins anywhere, so that no two beginnings are taken for
        #: one another; and by org, so that nobody can count what others do.
        self._counts: OrderedDict[UUID, int] = OrderedDict()
        self._closed = False

    def publish(self, org_id: UUID, event: ChangeEvent) -> None:
        """Something has changed here, and is committed."""
        which = org_id, event.kind, event.id
        if len(self._outgoing) < MAX_QUEUED:
            self._outgoing[which] = merge_events(self._outgoing.get(which), event)
            self.has_outgoing.set()
        self._tell(which, event)

    def receive(self, org_id: UUID, event: ChangeEvent) -> None:
        """Something has changed elsewhere; what is known already is not told again."""
        which = org_id, event.kind, event.id
        if org_id in self._subscribers and self._known.get(which, -1) < event.version:
            self._tell(which, event)

    def invalidate(self, org_id: UUID) -> None:
        """So much has changed in an org that nobody knows what."""
        for subscriber in self._subscribers.get(org_id, ()):
            subscriber.on_gap()

    @contextmanager
    def subscription(self, org_id: UUID, subscriber: Subscriber, since: str = "") -> Iterator[None]:
        """Tell somebody of this org's news, while inside, and of those since a position."""
        self._catch_up(org_id, subscriber, since)
        leave = self.subscribe(org_id, subscriber)
        try:
            yield
        finally:
            leave()

    def subscribe(self, org_id: UUID, subscriber: Subscriber) -> Callable[[], None]:
        """Tell somebody of this org's news from now on; returns how to leave."""
        others = self._subscribers.setdefault(org_id, [])
        if not others:
            self.has_newcomers.set()
        others.append(subscriber)
        self.is_wanted.set()
        if self._closed:
            subscriber.on_close()

        def leave() -> None:
            if subscriber in others:
                others.remove(subscriber)
            if not others and self._subscribers.get(org_id) is others:
                del self._subscribers[org_id]

        return leave

    def position(self, org_id: UUID) -> str:
        """How much was told of an org; who has read what is kept, and says this, misses nothing."""
        return f"{self.sender}.{self._counted(org_id)}"

    def subscribed_orgs(self) -> list[UUID]:
        """Whose news somebody waits for."""
        return list(self._subscribers)

    def take_outgoing(self) -> dict[UUID, list[ChangeEvent]]:
        """What is to be sent to other processes, by org; whoever takes it must send it."""
        self.has_outgoing.clear()
        taken, self._outgoing = self._outgoing, {}
        by_org: dict[UUID, list[ChangeEvent]] = {}
        for (org_id, _, _), news in taken.items():
            by_org.setdefault(org_id, []).append(news)
        return by_org

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Let everybody go who still listens, and whoever comes later."""
        self._closed = True
        for subscribers in list(self._subscribers.values()):
            for subscriber in list(subscribers):
                subscriber.on_close()

    def _tell(self, which: SubjectKey, event: ChangeEvent) -> None:
        org_id = which[0]
        self._counts[org_id] = self._counted(org_id) + 1
        self._told.append((org_id, event))
        subscribers = self._subscribers.get(org_id)
        if not subscribers:
            return
        self._known[which] = max(event.version, self._known.pop(which, 0))
        if len(self._known) > MAX_TRACKED_SUBJECTS:
            self._known.popitem(last=False)
        for subscriber in list(subscribers):
            subscriber.on_event(event)

    def _catch_up(self, org_id: UUID, subscriber: Subscriber, since: str) -> None:
        if not since:
            return
        sender, _, number = since.partition(".")
        known = number.isascii() and number.isdigit() and sender == self.sender
        missed = self._counted(org_id) - int(number[:18]) if known else -1
        told = [news for other, news in self._told if other == org_id]
        if not 0 <= missed <= len(told):
            subscriber.on_gap()
            return
        for news in told[len(told) - missed :]:
            subscriber.on_event(news)

    def _counted(self, org_id: UUID) -> int:
        count = self._counts.pop(org_id, None)
        self._counts[org_id] = secrets.randbits(48) if count is None else count
        if len(self._counts) > MAX_TRACKED_ORGS:
            self._counts.popitem(last=False)
        return self._counts[org_id]


#: Topics that may wait for a slow reader; beyond, all is said to have changed.
MAX_TOPICS = 200
#: The topic of everything.
ALL_TOPICS = "*"


class ChangeFeed:
    """Topics, each once however often it changed, until they are read."""

    def __init__(self) -> None:
        """A feed with nothing in it."""
        self._topics: dict[str, None] = {}
        self._ended = False
        self._has_news = asyncio.Event()

    def on_event(self, event: ChangeEvent) -> None:
        """Something changed."""
        if ALL_TOPICS in self._topics:
            return
        self._topics |= dict.fromkeys(event_topics(event))
        if len(self._topics) > MAX_TOPICS:
            self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_gap(self) -> None:
        """Anything may have changed."""
        self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_close(self) -> None:
        """There will be no more."""
        self._ended = True
        self._has_news.set()

    @property
    def has_ended(self) -> bool:
        return self._ended

    async def read(self, seconds: float) -> tuple[str, ...]:
        """The topics that changed since the last time: none if none does for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_news.wait()
        except TimeoutError:
            return ()
        return self.take()

    def take(self) -> tuple[str, ...]:
        """The topics that changed since the last time, without waiting."""
        if not self._ended:
            self._has_news.clear()
        topics, self._topics = tuple(self._topics), {}
        return topics
