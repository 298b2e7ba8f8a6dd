"""Connects to the first usable server of a connection string with several hosts.

The next host is tried after a moment, so that a host that does not answer causes little delay.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.store.driver.addresses import bounded_dsn, host_dsns

#: Seconds to wait for a host before the next host is tried too.
STAGGER_SECONDS: Final = 0.25

Opened: TypeAlias = AsyncConnection[TupleRow]
Open: TypeAlias = Callable[[str], Coroutine[Any, Any, Opened]]


async def connect(dsn: str, *, autocommit: bool = False) -> Opened:
    """Open a connection to the first usable host.

    Raises:
        Misconfigured: the connection string is not valid.
        psycopg.Error: no host accepted the connection; the error is that of the last host.
    """

    async def open_host(host: str) -> Opened:
        return await AsyncConnection.connect(host, autocommit=autocommit, prepare_threshold=None)

    return await first_opened(dsn, open_host)


async def first_opened(
    dsn: str, open_host: Open, is_final: Callable[[BaseException], bool] = lambda _: False
) -> Opened:
    """Return the first connection that `open_host` opens to one of the hosts.

    Raises:
        Misconfigured: the connection string is not valid.
        psycopg.Error, TimeoutError: no host could be connected, or an error was final.
    """
    hosts = host_dsns(bounded_dsn(dsn))
    if len(hosts) == 1:
        return await open_host(hosts[0])
    tasks = list[asyncio.Task[Opened]]()
    try:
        return await _race(hosts, open_host, is_final, tasks)
    finally:
        for task in tasks:
            task.cancel()
            task.add_done_callback(_close_unused)


async def _race(
    hosts: Sequence[str],
    open_host: Open,
    is_final: Callable[[BaseException], bool],
    tasks: list[asyncio.Task[Opened]],
) -> Opened:
    left, running = list(hosts), set[asyncio.Task[Opened]]()
    failure: BaseException | None = None
    while True:
        if left:
            task = asyncio.create_task(open_host(left.pop(0)))
            tasks.append(task)
            running.add(task)
        ended, running = await asyncio.wait(
            running,
            timeout=STAGGER_SECONDS if left else None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in ended:
            failure = task.exception()
            if failure is None:
                tasks.remove(task)
                return task.result()
            if is_final(failure):
                raise failure
        if failure is not None and not left and not running:
            raise failure


def _close_unused(task: asyncio.Task[Opened]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().pgconn.finish()
