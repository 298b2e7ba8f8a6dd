"""The keeper: the server's parent, which starts it, revives it, and stops it after the last client.

`python -m waybook.postgres.keeper DATA_DIR` runs it, detached from terminal and starter.
It holds `keeper.lock` for as long as it lives, so everybody can see whether there is one.
As root it makes the directories, then becomes the server's user for good.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.errors import Unavailable, WaybookError
from waybook.postgres import locks
from waybook.postgres.account import step_down
from waybook.postgres.binaries import Binaries, find_binaries
from waybook.postgres.cluster import prepare
from waybook.postgres.connection import (
    Connection,
    new_passwords,
    read_connection,
    write_connection,
)
from waybook.postgres.layout import Desk, ServerHome, socket_directory
from waybook.postgres.logs import bound, tail
from waybook.postgres.orphan import take_over
from waybook.postgres.postmaster import Postmaster, becomes_ready, spawn, stop
from waybook.postgres.premises import check_private, make_home

START_SECONDS = 55.0
HEARTBEAT_SECONDS = 0.2
PASSING = ("pre-existing shared memory block", "lock file")
"""What PostgreSQL says while what is left of its predecessor is still ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """All that is needed to run the server, with no right left that it does not need."""

    home: ServerHome
    binaries: Binaries
    connection: Connection
    clients: int
    """The descriptor of the lock that clients hold."""
    grace_seconds: float

    @property
    def socket_dir(self) -> Path:
        return Path(self.connection.socket_dir)


def main(arguments: list[str] | None = None) -> None:
    """Become a process of our own, and keep the server."""
    options = _options(arguments)
    if os.fork():
        os._exit(0)
    desk = Desk(options.data_dir)
    held = locks.open_lock(desk.keeper_lock)
    try:
        locks.wait_exclusive(held, time.monotonic() + 5, "became the keeper")
        house = _move_in(desk, durable=options.durable, grace_seconds=options.grace)
        server = bring_up(house)
    except WaybookError as error:
        _report(options.report, {"error": type(error).__name__, "message": error.message})
        raise
    except OSError as error:
        _report(options.report, {"error": Unavailable.__name__, "message": str(error)})
        raise
    _report(options.report, {"ready": True})
    keep(house, server)


def bring_up(house: House) -> Postmaster:
    """Take over the server that runs already, or start it.

    Raises:
        Unavailable: it does not start, with the last lines of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    log = house.home.log
    while True:
        if orphan := take_over(house.home, house.socket_dir, deadline):
            return orphan
        begin = log.stat().st_size if log.exists() else 0
        durable = house.connection.durable
        child = spawn(house.home, house.binaries, house.socket_dir, durable=durable)
        if becomes_ready(child, house.socket_dir, deadline):
            return child
        said = tail(log, begin)
        if time.monotonic() > deadline or not any(reason in said for reason in PASSING):
            stop(child)
            raise Unavailable(
                f"PostgreSQL did not start in {house.home.cluster}; its log {log} ends:\n{said}"
            )


def keep(house: House, server: Postmaster) -> None:
    """Revive the server when it dies, and stop it when nobody has needed it for a while."""
    told = _listen_for_the_end()
    idle_since: float | None = None
    while not told:
        time.sleep(HEARTBEAT_SECONDS)
        if server.is_gone():
            server = bring_up(house)
        bound(house.home.log)
        if not locks.try_exclusive(house.clients):
            idle_since = None
            continue
        idle_since = idle_since or time.monotonic()
        if time.monotonic() - idle_since >= house.grace_seconds:
            break  # with the lock in hand: a new client waits until the server is down
        locks.release(house.clients)
    stop(server)


def _move_in(desk: Desk, *, durable: bool, grace_seconds: float) -> House:
    clients = locks.open_lock(desk.clients_lock)
    home, account = make_home(desk)
    binaries = find_binaries(account)
    known = read_connection(desk.connection)
    connection = Connection(
        socket_dir=str(socket_directory(home)),
        server_home=str(home.directory),
        version=binaries.version,
        durable=durable,
        passwords=known.passwords if known else new_passwords(),
    )
    if connection != known:
        write_connection(desk.connection, connection)
    step_down(account)
    os.chdir("/")
    socket_dir = Path(connection.socket_dir)
    with contextlib.suppress(FileExistsError):
        socket_dir.mkdir(0o700)
    check_private(socket_dir, account.uid)
    prepare(home, binaries, connection.passwords, durable=durable)
    return House(
        home=home,
        binaries=binaries,
        connection=connection,
        clients=clients,
        grace_seconds=grace_seconds,
    )


def _listen_for_the_end() -> list[int]:
    """A list that holds a signal once we were told to end; a closed terminal does not count."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    return told


def _report(descriptor: int, message: dict[str, object]) -> None:
    """Tell the client that started us, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")
        os.close(descriptor)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="waybook.postgres.keeper")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--grace", type=float, default=2.0)
    parser.add_argument("--fleeting", dest="durable", action="store_false")
    parser.add_argument("--report", type=int, default=sys.stderr.fileno())
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
