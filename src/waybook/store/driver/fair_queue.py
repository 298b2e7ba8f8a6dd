"""Who comes next when there is not enough for all: orgs take turns, whoever has least goes first.

Several calls of an org wait in a row, first come first served. Between orgs it is the one that
holds the fewest things, and of those the one that has waited longest for its turn. So an org that
floods waits for itself, and others wait for one thing to come back.

An org that is alone may hold everything. Once there are others, a quarter stays out of its reach:
what it holds may take seconds to come back, and then they would have to wait for that.
"""

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from waybook.errors import Busy

T = TypeVar("T")

#: How many calls of an org may wait at the same time.
MAX_QUEUED: Final = 256


class FairQueue(Generic[T]):
    def __init__(self, size: int, most_waiting: int = MAX_QUEUED) -> None:
        """So many things to share, and nobody there yet."""
        self._size = size
        self._share = size - size // 4
        self._most_waiting = most_waiting
        self._held: defaultdict[Hashable, int] = defaultdict(int)
        #: Those who wait, by how many things their org holds; orgs in the order of their turns.
        self._waiting: defaultdict[int, dict[Hashable, deque[T]]] = defaultdict(dict)
        #: How many wait: mostly nobody does, and then nothing has to be looked for.
        self._crowd = 0
        self._first_org: Hashable = None
        self._most_each = size

    def register(self, org: Hashable) -> None:
        """Somebody has come; an org of none is the server itself, which is no company."""
        if org == self._first_org or org is None:
            return
        if self._first_org is None:
            self._first_org = org
        else:
            self._most_each = self._share

    def can_acquire(self, org: Hashable) -> bool:
        """Whether an org may hold one more."""
        return self._held.get(org, 0) < self._most_each

    def acquire(self, org: Hashable) -> None:
        """An org holds one more."""
        held = self._held[org]
        self._held[org] = held + 1
        if self._crowd:
            self._move(org, held, held + 1)

    def release(self, org: Hashable) -> None:
        """An org holds one less."""
        held = self._held.pop(org)
        if held > 1:
            self._held[org] = held - 1
        if self._crowd:
            self._move(org, held, held - 1)

    def enqueue(self, org: Hashable, waiting: T) -> None:
        """Somebody waits.

        Raises:
            Busy: too many of this org wait already.
        """
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
        """Somebody waits no longer."""
        level = self._waiting[self._held.get(org, 0)]
        queue = level.get(org)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            self._crowd -= 1
            if not queue:
                del level[org]

    def pop_next(self) -> tuple[Hashable, T] | None:
        """Whoever is next, and of which org, which holds one more with that.

        Nobody is, if all who wait have enough.
        """
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

    def _move(self, org: Hashable, old: int, new: int) -> None:
        """Those of an org wait among others who hold as much."""
        queue = self._waiting[old].pop(org, None) if old in self._waiting else None
        if queue is not None:
            self._waiting[new][org] = queue
