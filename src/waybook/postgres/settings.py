"""How the embedded server is set: durable, modest, reachable by its socket only."""

import os
from pathlib import Path

BASE = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "io_method": "sync",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "scram_iterations": "1024",  # the passwords are random: there is nothing to slow down
    "logging_collector": "off",  # the keeper bounds the log
    "log_checkpoints": "off",
    "autovacuum_naptime": "5s",  # a young table gets its statistics soon, and its plans with them
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
EPHEMERAL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""Nothing of the client's surroundings reaches the server."""


def server_arguments(*, durable: bool) -> list[str]:
    """The settings as arguments of `postgres`."""
    chosen = BASE | (DURABLE if durable else EPHEMERAL)
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def socket_argument(directory: Path) -> list[str]:
    """The socket's directory as arguments of `postgres`, which would split it at a comma."""
    quoted = os.fspath(directory).replace('"', '""')
    return ["-c", f'unix_socket_directories="{quoted}"']
