"""Large maps, drawn beside the calls.

A map with thousands of lines takes seconds to lay out, and everybody's calls would wait for that.
In a thread of its own the interpreter goes back and forth between it and them. There is one such
thread, so that drawing never has more than its half; and of each org one map waits for it at a
time, so that nobody waits for more than one of each other org.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from uuid import UUID

from waybook.dag.model import Dag
from waybook.errors import Busy

T = TypeVar("T")

#: Steps and lines of a map that is drawn at once: it takes a few hundredths of a second.
SMALL: Final = 600
#: Maps of an org that may wait.
MOST_WAITING: Final = 8


class Draughtsman:
    def __init__(self) -> None:
        """One who has nothing to draw yet."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drawing")
        self._turns: dict[UUID, asyncio.Lock] = {}
        self._waiting: Counter[UUID] = Counter()

    async def draw(self, org_id: UUID, weight: int, work: Callable[[], T]) -> T:
        """Do some work for an org: at once if it is light, else in the thread.

        Raises:
            Busy: too many of this org wait already.
        """
        if weight <= SMALL:
            return work()
        if self._waiting[org_id] >= MOST_WAITING:
            raise Busy(
                f"{MOST_WAITING} large maps of your org are waiting to be drawn; wait a second, "
                "then repeat the call",
                limit=MOST_WAITING,
            )
        self._waiting[org_id] += 1
        try:
            async with self._turns.setdefault(org_id, asyncio.Lock()):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting[org_id] -= 1
            if not self._waiting[org_id]:
                del self._waiting[org_id], self._turns[org_id]


def weight_of(dag: Dag) -> int:
    """How much there is to draw."""
    return sum(len(stage.recipe.steps) + len(stage.recipe.edges) for stage in dag.stages)
