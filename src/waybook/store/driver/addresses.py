"""Adds network timeouts and keepalives to PostgreSQL connection strings."""

from functools import lru_cache
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waybook.errors import Misconfigured

CONNECT_SECONDS: Final = 10
#: Defaults for a connection string with several hosts. The timeout is short, because another host
#: may answer.
SEVERAL_HOSTS: Final = {"connect_timeout": "3", "target_session_attrs": "read-write"}
#: Values of `target_session_attrs` that select the primary database server.
PRIMARY_ONLY: Final = frozenset({"read-write", "primary"})
PER_HOST: Final = ("host", "hostaddr", "port")
#: Network settings with which a lost server is noticed after 25 seconds instead of two hours.
NETWORK_LIMITS: Final = {
    "connect_timeout": str(CONNECT_SECONDS),
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
    limits = NETWORK_LIMITS | (SEVERAL_HOSTS if _count_hosts(parameters) > 1 else {})
    return make_conninfo(dsn, **{k: v for k, v in limits.items() if k not in parameters})


@lru_cache(maxsize=16)
def host_dsns(dsn: str) -> tuple[str, ...]:
    """Return a connection string for each host, in order.

    >>> host_dsns("host=a,b port=1,2 dbname=d")
    ('dbname=d host=a port=1', 'dbname=d host=b port=2')
    >>> host_dsns("host=a,b port=1")
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
        own = {name: _value_of(parameters[name], place) for name in PER_HOST if name in parameters}
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
    return _count_hosts(parameters) > 1 and parameters["target_session_attrs"] in PRIMARY_ONLY


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


def _value_of(values: str, place: int) -> str:
    each = values.split(",")
    return each[place] if place < len(each) else each[0]
