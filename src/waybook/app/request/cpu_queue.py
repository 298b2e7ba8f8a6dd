"""Runs CPU-heavy tasks in one thread.

Only one task of each org is submitted to the thread at a time, so that no org blocks the others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from uuid import UUID

from waybook.errors import Busy

T = TypeVar("T")

_MAX_WAITING: Final = 16


class CpuQueue:
    def __init__(self, jobs: str = "expensive calls", max_waiting: int = _MAX_WAITING) -> None:
        self._jobs, self._max_waiting = jobs, max_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=jobs)
        self._locks: dict[UUID, asyncio.Lock] = {}
        self._waiting: Counter[UUID] = Counter()

    async def run(self, org_id: UUID, work: Callable[[], T]) -> T:
        """Run a function in the thread, after the earlier tasks of the same org.

        Raises:
            Busy: too many tasks of this org wait already.
        """
        if self._waiting[org_id] >= self._max_waiting:
            raise Busy(
                f"{self._max_waiting} {self._jobs} of your org are waiting already; nothing was "
                "written. Wait a second, then repeat the call",
                limit=self._max_waiting,
            )
        self._waiting[org_id] += 1
        try:
            async with self._locks.setdefault(org_id, asyncio.Lock()):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting[org_id] -= 1
            if not self._waiting[org_id]:
                del self._waiting[org_id], self._locks[org_id]
