"""Connection strings: the network limits every connection to PostgreSQL has."""

from functools import lru_cache
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waybook.errors import Misconfigured

#: How long a connection attempt may take, per address.
CONNECT_SECONDS: Final = 10
#: Applied unless the connection string says otherwise; sockets of the file system ignore them.
#: A peer that vanished without closing is noticed after 25 idle seconds, and after 10 seconds in
#: which data we sent was not acknowledged (the operating system's default is about two hours).
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
    """Return the connection string with our network limits where it has none of its own.

    Raises:
        Misconfigured: it is not a valid connection string.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise Misconfigured(
            "the database URL cannot be read; write it like postgresql://user:password@host/name"
        ) from None
    return make_conninfo(dsn, **{k: v for k, v in NETWORK_LIMITS.items() if k not in given})
