"""Delivers events about committed changes of plans and runs to subscribers in all processes.

Publishing an event never waits.
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias
from uuid import UUID

from waybook.core.events import ChangeEvent

_SubjectKey: TypeAlias = tuple[int, str, str]

#: Maximum number of events that wait to be sent to other processes. If it is reached, other
#: processes find new changes by polling.
MAX_QUEUED = 10_000
#: Number of past events kept for subscribers that reconnect.
MAX_REPLAYED = 2_000
_MAX_TRACKED_SUBJECTS = 10_000
MAX_TRACKED_ORGS = 10_000


class Subscriber(Protocol):
    """Receives the change events of one org. Its methods must not block or raise."""

    def on_event(self, event: ChangeEvent, /) -> None: ...

    def on_gap(self) -> None:
        """Handle the loss of events. Any plan or run of the org may have changed."""

    def on_close(self) -> None:
        """Handle the stop of the server, after which no events follow."""


class Bus:
    def __init__(self) -> None:
        self.sender = secrets.token_hex(4)
        self.has_outgoing = asyncio.Event()
        self.is_wanted = asyncio.Event()
        self.has_newcomers = asyncio.Event()
        self._outgoing: dict[_SubjectKey, ChangeEvent] = {}
        self._subscribers: dict[int, list[Subscriber]] = {}
        self._known: OrderedDict[_SubjectKey, int] = OrderedDict()
        self._recent: deque[tuple[int, ChangeEvent]] = deque(maxlen=MAX_REPLAYED)
        #: Number of events of each org so far. It starts at a random number, so that `events_since`
        #: does not accept a position that another process gave to a client.
        self._counts: OrderedDict[int, int] = OrderedDict()
        self.is_closed = False

    def publish(self, org_id: UUID, event: ChangeEvent) -> None:
        """Deliver an event to the subscribers in this process, and queue it for other processes."""
        which = org_id.int, event.kind, event.id
        if len(self._outgoing) < MAX_QUEUED:
            self._outgoing[which] = merge_events(self._outgoing.get(which), event)
            self.has_outgoing.set()
        self._tell(which, event)

    def receive(self, org_id: UUID, event: ChangeEvent) -> None:
        which = org_id.int, event.kind, event.id
        if org_id.int in self._subscribers and self._known.get(which, -1) < event.version:
            self._tell(which, event)

    def invalidate(self, org_id: UUID) -> None:
        for subscriber in self._subscribers.get(org_id.int, ()):
            subscriber.on_gap()

    @contextmanager
    def subscription(self, org_id: UUID, subscriber: Subscriber, since: str = "") -> Iterator[None]:
        """Subscribe to an org's events in the `with` block, starting after the position `since`."""
        missed = self.events_since(org_id, since) if since else []
        if missed is None:
            subscriber.on_gap()
        for event in missed or ():
            subscriber.on_event(event)
        leave = self.subscribe(org_id, subscriber)
        try:
            yield
        finally:
            leave()

    def subscribe(self, org_id: UUID, subscriber: Subscriber) -> Callable[[], None]:
        """Subscribe to an org's events. Return a function that unsubscribes."""
        others = self._subscribers.setdefault(org_id.int, [])
        if not others:
            self.has_newcomers.set()
        others.append(subscriber)
        self.is_wanted.set()
        if self.is_closed:
            subscriber.on_close()

        def leave() -> None:
            if subscriber in others:
                others.remove(subscriber)
            if not others and self._subscribers.get(org_id.int) is others:
                del self._subscribers[org_id.int]

        return leave

    def position(self, org_id: UUID) -> str:
        return f"{self.sender}.{self._counted(org_id.int)}"

    def events_since(self, org_id: UUID, since: str) -> list[ChangeEvent] | None:
        """Return the events after the position `since`, or None if some are no longer stored."""
        sender, _, number = since.partition(".")
        known = number.isascii() and number.isdigit() and sender == self.sender
        missed = self._counted(org_id.int) - int(number[:18]) if known else -1
        if missed == 0:
            return []
        recent_events = [event for other, event in self._recent if other == org_id.int]
        if not 0 < missed <= len(recent_events):
            return None
        return recent_events[len(recent_events) - missed :]

    def subscribed_orgs(self) -> list[UUID]:
        return [UUID(int=org) for org in self._subscribers]

    def take_outgoing(self) -> dict[UUID, list[ChangeEvent]]:
        """Remove and return the events that other processes must receive, by org."""
        self.has_outgoing.clear()
        taken, self._outgoing = self._outgoing, {}
        by_org: dict[UUID, list[ChangeEvent]] = {}
        for (org, _, _), event in taken.items():
            by_org.setdefault(UUID(int=org), []).append(event)
        return by_org

    def close(self) -> None:
        self.is_closed = True
        for subscribers in list(self._subscribers.values()):
            for subscriber in list(subscribers):
                subscriber.on_close()

    def _tell(self, which: _SubjectKey, event: ChangeEvent) -> None:
        org = which[0]
        self._counts[org] = self._counted(org) + 1
        self._recent.append((org, event))
        subscribers = self._subscribers.get(org)
        if not subscribers:
            return
        self._known[which] = max(event.version, self._known.pop(which, 0))
        if len(self._known) > _MAX_TRACKED_SUBJECTS:
            self._known.popitem(last=False)
        for subscriber in list(subscribers):
            subscriber.on_event(event)

    def _counted(self, org: int) -> int:
        count = self._counts.get(org)
        if count is None:
            count = self._counts[org] = secrets.randbits(48)
            if len(self._counts) > MAX_TRACKED_ORGS:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(org)
        return count


#: Maximum number of changed topics that a `ChangeFeed` keeps. If more topics change, its subscriber
#: must reload everything.
MAX_TOPICS = 200
ALL_TOPICS = "*"


class ChangeFeed:
    """Collects the topics, such as `plan:ID`, that changed since the last read."""

    def __init__(self) -> None:
        self._topics: dict[str, None] = {}
        self.has_ended = False
        self._has_news = asyncio.Event()

    def on_event(self, event: ChangeEvent) -> None:
        if ALL_TOPICS in self._topics:
            return
        self._topics |= dict.fromkeys(event_topics(event))
        if len(self._topics) > MAX_TOPICS:
            self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_gap(self) -> None:
        self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_close(self) -> None:
        self.has_ended = True
        self._has_news.set()

    async def read(self, seconds: float) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(seconds):
                await self._has_news.wait()
        except TimeoutError:
            return ()
        return self.take()

    def take(self) -> tuple[str, ...]:
        if not self.has_ended:
            self._has_news.clear()
        topics, self._topics = tuple(self._topics), {}
        return topics


def event_topics(event: ChangeEvent) -> tuple[str, ...]:
    """Return the subscription topics of a change event.

    >>> event_topics(ChangeEvent("plan", "7", 3, list_changed=True))
    ('plan:7', 'plans', 'inbox')
    """
    topics = (f"{event.kind}:{event.id}", f"{event.kind}s")
    return (*topics, "inbox") if event.list_changed else topics


def merge_events(known: ChangeEvent | None, event: ChangeEvent) -> ChangeEvent:
    if known is None or (known.version <= event.version and not known.list_changed):
        return event
    later = max(known.version, event.version)
    return event._replace(version=later, list_changed=known.list_changed or event.list_changed)
