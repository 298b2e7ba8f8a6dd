"""Queues of calls that wait for work.

Calls share a queue if they wait for the same plan or run and accept the same kinds of jobs.

After a change, only the first call of a queue tries to claim work, so that not all waiting calls
query the database for one freed step.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from waybook.core.events import ChangeEvent
from waybook.json_values import Body
from waybook.store.driver.bus import Bus

#: Maximum number of waiting calls in a process, and of one org. Further calls return at once.
MAX_WAITING: Final = 4_000
MAX_WAITING_OF_ORG: Final = 1_000
#: Minimum seconds between two tries of a queue to claim work, so that many changes cause few tries.
MIN_PAUSE_SECONDS: Final = 0.02
#: Seconds added to the time until work is free: the clocks of database and process may differ.
TIMER_MARGIN_SECONDS: Final = 0.1
OVERDUE_SECONDS: Final = 1.0


class Subject(NamedTuple):
    kind: str
    id: str | None
    filters: Hashable = ()


class Nothing(NamedTuple):
    subject: Subject
    retry_seconds: int
    free_in: float | None = None


class Timer(Protocol):
    def cancel(self) -> None: ...


class _TimerLoop(Protocol):
    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer: ...


class Waiter:
    __slots__ = ("is_expired", "woken")

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.is_expired = False

    def expire(self) -> None:
        self.is_expired = True
        self.woken.set()


class WaitQueue:
    def __init__(self, loop: _TimerLoop) -> None:
        self._loop = loop
        self._waiters: dict[Waiter, None] = {}
        self._trying: Waiter | None = None
        self._has_changed = False
        self._quiet_until = -math.inf
        self._timer: tuple[float, Timer] | None = None
        #: Reply of the last try to claim work. A call gets it when its waiting time is over.
        self.reply: Body = {}
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._waiters)

    def join(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        del self._waiters[waiter]
        if self._trying is waiter:
            self._trying = None
            self._wake_first()
        if not self._waiters and self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    def wake(self) -> None:
        """Let the first call try again, because the plan or run has changed."""
        self._has_changed = True
        if self._loop.time() >= self._quiet_until:
            self._wake_first()
        else:
            self._wake_at(self._quiet_until)

    def start_trying(self) -> None:
        self._has_changed = False

    def note_nothing(self, nothing: Nothing, reply: Body) -> None:
        self.reply = reply
        if nothing.free_in is not None:
            overdue = nothing.free_in <= 0
            delay = OVERDUE_SECONDS if overdue else nothing.free_in + TIMER_MARGIN_SECONDS
            self._wake_at(self._loop.time() + delay)

    def stop_trying(self) -> None:
        self._trying = None
        self._quiet_until = self._loop.time() + MIN_PAUSE_SECONDS
        if self._has_changed:
            self._wake_at(self._quiet_until)

    def close(self) -> None:
        self.is_closed = True
        for waiter in self._waiters:
            waiter.woken.set()

    def _wake_first(self) -> None:
        if self._trying is None and self._waiters:
            self._trying = next(iter(self._waiters))
            self._trying.woken.set()

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer[0] <= when:
                return
            self._timer[1].cancel()
        self._timer = when, self._loop.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._wake_first()


class _OrgQueues:
    def __init__(self, loop: _TimerLoop) -> None:
        self._loop = loop
        self._queues: dict[tuple[str, str | None], dict[Hashable, WaitQueue]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def queue(self, subject: Subject) -> WaitQueue:
        queues = self._queues.setdefault((subject.kind, subject.id), {})
        if subject.filters not in queues:
            queues[subject.filters] = WaitQueue(self._loop)
        return queues[subject.filters]

    def discard(self, subject: Subject) -> None:
        queues = self._queues[subject.kind, subject.id]
        if not queues[subject.filters]:
            del queues[subject.filters]
        if not queues:
            del self._queues[subject.kind, subject.id]

    def on_event(self, event: ChangeEvent) -> None:
        for subject_id in (event.id, None):
            for queue in self._queues.get((event.kind, subject_id), {}).values():
                queue.wake()

    def on_gap(self) -> None:
        for queue in self._all():
            queue.wake()

    def on_close(self) -> None:
        for queue in self._all():
            queue.close()

    def _all(self) -> Iterator[WaitQueue]:
        for queues in self._queues.values():
            yield from queues.values()


class WaitingCalls:
    def __init__(
        self,
        most: int = MAX_WAITING,
        most_of_org: int = MAX_WAITING_OF_ORG,
        *,
        loop: Callable[[], _TimerLoop] = asyncio.get_running_loop,
    ) -> None:
        self._most, self._most_of_org = most, most_of_org
        self._loop = loop
        self._counts: Counter[UUID] = Counter()
        self._queued = 0
        self._orgs: dict[UUID, tuple[_OrgQueues, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return self._queued

    def time(self) -> float:
        return self._loop().time()

    def has_capacity(self, org_id: UUID) -> bool:
        return self._counts.total() < self._most and self._counts[org_id] < self._most_of_org

    @contextmanager
    def counted(self, org_id: UUID) -> Iterator[None]:
        self._counts[org_id] += 1
        try:
            yield
        finally:
            self._counts[org_id] -= 1
            if not self._counts[org_id]:
                del self._counts[org_id]

    @contextmanager
    def queued(
        self, bus: Bus, org_id: UUID, subject: Subject, deadline: float
    ) -> Iterator[tuple[WaitQueue, Waiter]]:
        loop, waiter = self._loop(), Waiter()
        if org_id not in self._orgs:
            org_queues = _OrgQueues(loop)
            self._orgs[org_id] = org_queues, bus.subscribe(org_id, org_queues)
        org_queues, unsubscribe = self._orgs[org_id]
        queue = org_queues.queue(subject)
        queue.join(waiter)
        self._queued += 1
        timer = loop.call_at(deadline, waiter.expire)
        try:
            yield queue, waiter
        finally:
            timer.cancel()
            self._queued -= 1
            queue.leave(waiter)
            org_queues.discard(subject)
            if not org_queues:
                del self._orgs[org_id]
                unsubscribe()
