"""The client's half of starting: find the running server, or start a keeper and hear its word."""

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.errors import Misconfigured, Unavailable
from waybook.postgres import locks
from waybook.postgres.connection import ConnectionInfo, read_connection_info
from waybook.postgres.layout import ControlDirectory
from waybook.postgres.logs import open_log, rotate, tail
from waybook.postgres.probe import ProbeStatus, probe

START_SECONDS = 60.0
POLL_SECONDS = 0.02
SUPERVISOR_MODULE = "waybook.postgres.keeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the keeper is told when it is started; it does not change its mind while it runs."""

    durable: bool
    grace_seconds: float


def ensure_running(desk: ControlDirectory, options: Options) -> ConnectionInfo:
    """The way to the server, once it has a keeper and takes connections.

    Raises:
        Misconfigured: it cannot run here.
        Unavailable: it did not start.
    """
    if running := _running(desk):
        return running
    deadline = time.monotonic() + START_SECONDS
    turn = locks.open_lock(desk.start_lock)
    try:
        locks.wait_exclusive(turn, deadline, "waited for its turn to start PostgreSQL")
        while (running := _running(desk)) is None:
            _check(desk, deadline)
            if locks.is_held(desk.supervisor_lock):
                time.sleep(POLL_SECONDS)  # it is starting or reviving the server
            else:
                _start_keeper(desk, options, deadline)
        return running
    finally:
        os.close(turn)


def _running(desk: ControlDirectory) -> ConnectionInfo | None:
    connection = read_connection_info(desk.connection)
    if connection is None or not locks.is_held(desk.supervisor_lock):
        return None
    answer = probe(Path(connection.socket_dir))
    return connection if answer.condition is ProbeStatus.READY else None


def _start_keeper(desk: ControlDirectory, options: Options, deadline: float) -> None:
    rotate(desk.log)
    log = open_log(desk.log)
    receiver, sender = os.pipe()
    durability = "durable" if options.durable else "fleeting"
    told = (desk.data_dir, durability, str(options.grace_seconds), str(sender))
    try:
        subprocess.run(  # noqa: S603 - our own command line
            (sys.executable, "-P", "-m", SUPERVISOR_MODULE, *told),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(sender,),
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
        os.close(sender)
    try:
        _hear(desk, receiver, deadline)
    finally:
        os.close(receiver)


def _hear(desk: ControlDirectory, receiver: int, deadline: float) -> None:
    heard = select.select([receiver], [], [], max(0.0, deadline - time.monotonic()))[0]
    word = os.read(receiver, 65536) if heard else b""
    if not word:
        fate = "ended" if heard else "is still at work, so far"
        raise Unavailable(
            f"the keeper of PostgreSQL in {desk.data_dir} {fate} without a word; "
            f"its log {desk.log} ends:\n{tail(desk.log)}"
        )
    said = json.loads(word)
    if "error" in said:
        kind = Misconfigured if said["error"] == Misconfigured.__name__ else Unavailable
        raise kind(said["message"])


def _check(desk: ControlDirectory, deadline: float) -> None:
    if time.monotonic() < deadline:
        return
    connection = read_connection_info(desk.connection)
    log = Path(connection.server_home) / "server.log" if connection else desk.log
    raise Unavailable(
        f"PostgreSQL in {desk.data_dir} takes no connections after {START_SECONDS:.0f} s; "
        f"its log {log} ends:\n{tail(log)}"
    )
