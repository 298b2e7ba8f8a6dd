"""Shares connections fairly: the waiting org that holds the fewest connections is served first.

With several active orgs, each may hold at most three quarters of the connections.
"""

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from waybook.errors import Busy

T = TypeVar("T")

MAX_QUEUED: Final = 256


class FairQueue(Generic[T]):
    def __init__(self, size: int, most_waiting: int = MAX_QUEUED) -> None:
        self._size = size
        self._share = size - size // 4
        self._most_waiting = most_waiting
        self._held: defaultdict[Hashable, int] = defaultdict(int)
        self._waiting: defaultdict[int, dict[Hashable, deque[T]]] = defaultdict(dict)
        self._crowd = 0
        self._first_org: Hashable = None
        self._most_each = size

    def register(self, org: Hashable) -> None:
        """Record that an org is active. None means the server itself."""
        if org == self._first_org or org is None:
            return
        if self._first_org is None:
            self._first_org = org
        else:
            self._most_each = self._share

    def can_acquire(self, org: Hashable) -> bool:
        return self._held.get(org, 0) < self._most_each

    def acquire(self, org: Hashable) -> None:
        held = self._held[org]
        self._held[org] = held + 1
        if self._crowd:
            self._move(org, held, held + 1)

    def release(self, org: Hashable) -> None:
        held = self._held.pop(org)
        if held > 1:
            self._held[org] = held - 1
        if self._crowd:
            self._move(org, held, held - 1)

    def enqueue(self, org: Hashable, waiting: T) -> None:
        level = self._waiting[self._held.get(org, 0)]
        queue = level.setdefault(org, deque())
        if len(queue) >= self._most_waiting:
            raise Busy(
                f"{self._most_waiting} calls of your org wait for the database already; nothing "
                "was written. Wait a second, then repeat the call, and make fewer at a time",
                limit=self._most_waiting,
            )
        queue.append(waiting)
        self._crowd += 1

    def dequeue(self, org: Hashable, waiting: T) -> None:
        level = self._waiting[self._held.get(org, 0)]
        queue = level.get(org)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            self._crowd -= 1
            if not queue:
                del level[org]

    def pop_next(self) -> tuple[Hashable, T] | None:
        """Remove and return the next call with its org. None if no org may get a connection now."""
        for held in range(self._most_each if self._crowd else 0):
            level = self._waiting.get(held)
            if level:
                org = next(iter(level))
                queue = level[org]
                waiting = queue.popleft()
                self._crowd -= 1
                if not queue:
                    del level[org]
                self.acquire(org)
                return org, waiting
        return None

    def waiting_count(self) -> int:
        return self._crowd

    def _move(self, org: Hashable, old: int, new: int) -> None:
        queue = self._waiting[old].pop(org, None) if old in self._waiting else None
        if queue is not None:
            self._waiting[new][org] = queue
