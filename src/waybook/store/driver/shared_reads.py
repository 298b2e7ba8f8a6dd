"""Reads that several concurrent callers share, so that a burst of equal reads costs one message."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class SharedReads:
    """Runs one read per key at a time.

    Calls that arrive during a read share the next one, so that each call sees everything that was
    committed before it.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[Any]] = {}
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def read(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a read that begins after this call."""
        task: asyncio.Task[T] | None = self._next.get(key)
        if task is None:
            lock = self._locks.setdefault(key, asyncio.Lock())
            task = self._next[key] = asyncio.create_task(self._run(key, lock, read))
        return await asyncio.shield(task)

    async def _run(
        self, key: Hashable, lock: asyncio.Lock, read: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        async with lock:
            del self._next[key]
            return await read()
