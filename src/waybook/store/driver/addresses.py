"""Network timeouts and keepalives added to every PostgreSQL connection string."""

from functools import lru_cache
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waybook.errors import Misconfigured

#: Maximum time in seconds of an attempt to connect to one address.
CONNECT_SECONDS: Final = 10
#: Connection parameters that apply unless the connection string sets them; they have no effect on
#: Unix sockets. If a peer vanishes without closing the connection, the loss is detected after 25
#: seconds without traffic, or after 10 seconds in which sent data is not acknowledged. With the
#: defaults of the operating system, it would take about two hours.
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
    """Return the connection string with network timeouts added, unless it already sets them.

    Raises:
        Misconfigured: the connection string is not valid.
    """
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise Misconfigured(
            "the database URL cannot be read; write it like postgresql://user:password@host/name"
        ) from None
    return make_conninfo(dsn, **{k: v for k, v in NETWORK_LIMITS.items() if k not in parameters})
