"""Embedded PostgreSQL server that runs while at least one Waybook process is attached to it.

A small supervisor process restarts the server when it is killed, and stops it shortly after the
last client has ended.
"""

import os
import sys
import time
from pathlib import Path
from typing import Self

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import ADMIN, APP, OWNER, ConnectionInfo
from waybook.embedded_postgres.data_directory import create_control_directory
from waybook.embedded_postgres.launch import (
    START_SECONDS,
    Options,
    SupervisorMonitor,
    ensure_running,
)
from waybook.errors import Misconfigured, Unavailable

GRACE_SECONDS = 2.0


class Attachment:
    """One client's use of the embedded server, which runs until the last client is closed."""

    def __init__(
        self, data_dir: Path, connection: ConnectionInfo, claim: int, watch: SupervisorMonitor
    ) -> None:
        self.data_dir = data_dir
        self.version = connection.version
        self.app_dsn = connection.dsn(APP, connection.passwords.app)
        self.owner_dsn = connection.dsn(OWNER, connection.passwords.owner)
        self.admin_dsn = connection.dsn(ADMIN, connection.passwords.admin)
        self._claim: int | None = claim
        self._watch = watch

    def close(self) -> None:
        if self._claim is not None:
            self._watch.close()
            os.close(self._claim)
            self._claim = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attach(
    data_dir: Path, *, durable: bool = True, grace_seconds: float = GRACE_SECONDS
) -> Attachment:
    """Start the PostgreSQL server for this data directory, or attach to it if it is running.

    `durable=False` is faster but may lose data, so it is for tests only.

    Raises:
        Misconfigured: the server cannot run on this system, or runs without the requested
        durability.
        Unavailable: the server did not start; the message contains the end of its log.
    """
    if sys.platform == "win32":
        raise Misconfigured(
            "the embedded PostgreSQL does not run on Windows; name a server with --database-url"
        )
    control_dir = create_control_directory(Path(os.path.abspath(data_dir)))  # noqa: PTH100 - symbolic links stay as they are
    options = Options(durable=durable, grace_seconds=grace_seconds)
    claim = locks.open_lock(control_dir.clients_lock)
    try:
        deadline = time.monotonic() + START_SECONDS
        locks.wait_shared(claim, deadline, "waited for PostgreSQL to stop before starting it again")
        connection = ensure_running(control_dir, options)
        _check_durable(connection, wanted=durable)
    except OSError as error:
        os.close(claim)
        raise Unavailable(
            f"PostgreSQL in {control_dir.data_dir} is out of reach: {error}"
        ) from error
    except BaseException:
        os.close(claim)
        raise
    return Attachment(
        control_dir.data_dir, connection, claim, SupervisorMonitor(control_dir, options)
    )


def _check_durable(connection: ConnectionInfo, *, wanted: bool) -> None:
    if wanted and not connection.durable:
        raise Misconfigured(
            f"the server at {connection.socket_dir} was started without durability, as tests do; "
            "choose another data directory, or wait until its users are gone"
        )
