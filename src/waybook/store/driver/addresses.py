"""Adds network timeouts and keepalives to PostgreSQL connection strings."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from waybook.errors import Misconfigured

_CONNECT_SECONDS: Final = 10
#: Defaults for a connection string with several hosts. The timeout is short, because another host
#: may answer.
_SEVERAL_HOSTS: Final = {"connect_timeout": "3", "target_session_attrs": "read-write"}
#: Values of `target_session_attrs` that select the primary database server.
_PRIMARY_ONLY: Final = frozenset({"read-write", "primary"})
_PER_HOST: Final = ("host", "hostaddr", "port")
#: Network settings with which a lost server is noticed after 25 seconds instead of two hours.
_NETWORK_LIMITS: Final = {
    "connect_timeout": str(_CONNECT_SECONDS),
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


@lru_cache(maxsize=16)
def bounded_dsn(dsn: str) -> str:
    """Add network timeouts to a connection string, unless it already sets them."""
    parameters = _parameters(dsn)
    limits = _NETWORK_LIMITS | (_SEVERAL_HOSTS if _count_hosts(parameters) > 1 else {})
    return make_conninfo(dsn, **{k: v for k, v in limits.items() if k not in parameters})


@lru_cache(maxsize=16)
def _host_dsns(dsn: str) -> tuple[str, ...]:
    """Return one connection string per host, in the order of the hosts.

    >>> _host_dsns("host=a,b port=1,2 dbname=d")
    ('dbname=d host=a port=1', 'dbname=d host=b port=2')
    >>> _host_dsns("host=a,b port=1")
    ('host=a port=1', 'host=b port=1')

    Raises:
        Misconfigured: the connection string is not valid.
    """
    parameters = _parameters(dsn)
    count = _count_hosts(parameters)
    if count == 1:
        return (dsn,)
    hosts = []
    for place in range(count):
        own = {}
        for name in _PER_HOST:
            # A single port applies to every host.
            values = parameters[name].split(",") if name in parameters else []
            if values:
                own[name] = values[place] if place < len(values) else values[0]
        hosts.append(make_conninfo("", **(parameters | own)))
    return tuple(hosts)


@lru_cache(maxsize=16)
def follows_primary(dsn: str) -> bool:
    """Return whether the connection string names several hosts and selects the primary.

    >>> follows_primary("host=a,b"), follows_primary("host=a")
    (True, False)
    >>> follows_primary("host=a,b target_session_attrs=any")
    False
    """
    parameters = _parameters(bounded_dsn(dsn))
    return _count_hosts(parameters) > 1 and parameters["target_session_attrs"] in _PRIMARY_ONLY


def _parameters(dsn: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        raise Misconfigured(
            "the database URL cannot be read; write it like postgresql://user:password@host/name"
        ) from None


def _count_hosts(parameters: dict[str, str]) -> int:
    named = parameters.get("host") or parameters.get("hostaddr") or ""
    return len(named.split(","))


#: If a host has not answered after these seconds, the next host is tried in parallel.
_STAGGER_SECONDS: Final = 0.25
_Opened: TypeAlias = AsyncConnection[TupleRow]
Open: TypeAlias = Callable[[str], Coroutine[Any, Any, _Opened]]


async def connect(dsn: str, *, autocommit: bool = False) -> _Opened:
    """Open a connection to the first usable host.

    Raises:
        Misconfigured: the connection string is not valid.
        psycopg.Error: no host accepted the connection. This is the error of the last host.
    """

    async def open_host(host: str) -> _Opened:
        return await AsyncConnection.connect(host, autocommit=autocommit, prepare_threshold=None)

    return await first_opened(dsn, open_host)


async def first_opened(
    dsn: str, open_host: Open, is_final: Callable[[BaseException], bool] = lambda _: False
) -> _Opened:
    """Return the first connection that `open_host` can open to any of the hosts.

    If `is_final` returns true for the error of a host, the other hosts are not awaited.

    Raises:
        Misconfigured: the connection string is not valid.
        psycopg.Error, TimeoutError: no host accepted a connection, or an error was final.
    """
    hosts = _host_dsns(bounded_dsn(dsn))
    if len(hosts) == 1:
        return await open_host(hosts[0])
    tasks = list[asyncio.Task[_Opened]]()
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
    tasks: list[asyncio.Task[_Opened]],
) -> _Opened:
    left, running = list(hosts), set[asyncio.Task[_Opened]]()
    failure: BaseException | None = None
    while True:
        if left:
            task = asyncio.create_task(open_host(left.pop(0)))
            tasks.append(task)
            running.add(task)
        ended, running = await asyncio.wait(
            running,
            timeout=_STAGGER_SECONDS if left else None,
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


def _close_unused(task: asyncio.Task[_Opened]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().pgconn.finish()
