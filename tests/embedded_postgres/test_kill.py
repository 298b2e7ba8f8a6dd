"""Processes ended by `kill -9` at any time: no data is lost, and no process or file remains."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from embedded_postgres.data_directories import server_home
from embedded_postgres.processes import (
    Client,
    descendants,
    eventually,
    keepers,
    kill,
    open_client,
    postmasters,
    start_client,
)
from waybook.embedded_postgres.cluster import EPHEMERAL
from waybook.embedded_postgres.connection import SOCKET_NAME
from waybook.embedded_postgres.data_directory import ControlDirectory
from waybook.embedded_postgres.locks import is_held
from waybook.embedded_postgres.supervisor import attach


def reached(dsn: str) -> bool:
    """Return whether a connection to the database succeeds."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def test_database_server_stops_when_all_clients_are_killed(used: Path) -> None:
    cluster = server_home(used).cluster
    clients = [start_client(used) for _ in range(2)]
    for client in clients:
        assert "app_dsn" in client.complete()
    clients[0].kill()
    assert len(postmasters(cluster)) == 1
    clients[1].kill()
    eventually(lambda: not postmasters(cluster), "the server has stopped")
    eventually(lambda: not keepers(used), "the keeper has ended")


def test_killed_database_server_restarts_with_committed_data(used: Path) -> None:
    cluster = server_home(used).cluster
    with attach(used, grace_seconds=0) as attachment:
        with psycopg.connect(attachment.owner_dsn) as connection:
            connection.execute("create table survived (word text)")
            connection.execute("insert into survived values ('yes')")
            connection.commit()
            before = postmasters(cluster)
            kill(*before)
            eventually(lambda: reached(attachment.app_dsn), "the same DSN works again")
        after = postmasters(cluster)
        assert len(before) == len(after) == 1
        assert before != after
        with psycopg.connect(attachment.owner_dsn) as connection:
            assert connection.execute("select word from survived").fetchall() == [("yes",)]


def test_database_server_continues_while_killed_supervisor_is_replaced(used: Path) -> None:
    cluster = server_home(used).cluster
    with open_client(used) as client:
        client.complete()
        before, (keeper,) = postmasters(cluster), keepers(used)
        kill(keeper)
        eventually(lambda: keepers(used) not in ([], [keeper]), "there is a new keeper")
        assert postmasters(cluster) == before
    eventually(lambda: not postmasters(cluster), "the server taken over has stopped")


def test_database_supervisor_has_separate_session_and_survives_sigint(used: Path) -> None:
    with open_client(used) as client:
        dsn = client.complete()["app_dsn"]
        (keeper,) = keepers(used)
        assert os.getsid(keeper) != os.getsid(client.process.pid)
        for number in (signal.SIGINT, signal.SIGHUP):
            os.kill(keeper, number)
        before = postmasters(server_home(used).cluster)
        # The server comes back only if the signals have not ended the supervisor.
        kill(*before)
        eventually(lambda: reached(dsn), "the server is back")
        assert keepers(used) == [keeper]


def test_client_restarts_database_server_after_sigterm_to_supervisor(used: Path) -> None:
    with open_client(used) as client:
        dsn = client.complete()["app_dsn"]
        (keeper,) = keepers(used)
        os.kill(keeper, signal.SIGTERM)
        eventually(lambda: keepers(used) not in ([], [keeper]), "there is a new keeper")
        eventually(lambda: reached(dsn), "the same DSN works again")


def make_orphan(used: Path) -> int:
    """Kill a supervisor and its client; return the process id of the server, which still runs."""
    client = start_client(used)
    client.complete()
    client.process.send_signal(signal.SIGSTOP)
    kill_keeper(used)
    client.kill()
    (orphan,) = postmasters(server_home(used).cluster)
    return orphan


def kill_keeper(used: Path) -> None:
    """Kill the supervisor process, and wait until the supervisor's lock is released."""
    kill(*keepers(used))
    eventually(lambda: not is_held(ControlDirectory(used).supervisor_lock), "the keeper is dead")


def test_database_server_without_supervisor_is_reused_by_next_client(used: Path) -> None:
    cluster = server_home(used).cluster
    orphan = make_orphan(used)
    with attach(used, durable=False, grace_seconds=0) as attachment:
        assert reached(attachment.app_dsn)
        assert postmasters(cluster) == [orphan]
    eventually(lambda: not postmasters(cluster), "the orphan has stopped")


def test_database_server_without_supervisor_stops_with_the_last_client(used: Path) -> None:
    cluster = server_home(used).cluster
    with attach(used, durable=False, grace_seconds=0):
        kill_keeper(used)
    eventually(lambda: not postmasters(cluster), "the server has stopped")


def test_killed_supervisor_and_database_server_are_restarted(used: Path) -> None:
    cluster = server_home(used).cluster
    with attach(used, durable=False, grace_seconds=0) as attachment:
        kill(*keepers(used), *postmasters(cluster))
        eventually(lambda: reached(attachment.app_dsn), "the same DSN works again")


def test_removed_socket_of_a_running_database_server_is_restored(used: Path) -> None:
    home = server_home(used)
    with attach(used, durable=False, grace_seconds=0) as attachment:
        (home.directory / "socket" / SOCKET_NAME).unlink()
        eventually(lambda: reached(attachment.app_dsn), "the same DSN works again")
        assert len(postmasters(home.cluster)) == 1


def test_database_server_without_supervisor_and_socket_is_replaced(used: Path) -> None:
    home = server_home(used)
    make_orphan(used)
    (home.directory / "socket" / SOCKET_NAME).unlink()
    with attach(used, durable=False, grace_seconds=0) as attachment:
        assert reached(attachment.app_dsn)
        assert len(postmasters(home.cluster)) == 1


# Moments during the first start, each with a function that returns true from this moment on.
MOMENTS: dict[str, Callable[[Path], object]] = {
    "the keeper has begun": lambda d: (
        ControlDirectory(d).supervisor_lock.exists()
        and is_held(ControlDirectory(d).supervisor_lock)
    ),
    "initdb is at work": lambda d: list(d.glob("server/cluster*/base/1/PG_VERSION")),
    "the first session runs": lambda d: (d / "server/cluster/postmaster.pid").exists(),
    "the database is there": lambda d: len(list(d.glob("server/cluster/base/*"))) > 3,
    "the server has begun": lambda d: (d / "server/server.log").exists(),
}


def begin(data_dir: Path, moment: str) -> Client:
    client = start_client(data_dir, grace=60)
    eventually(lambda: MOMENTS[moment](data_dir), moment)
    return client


def check_complete(data_dir: Path) -> None:
    with attach(data_dir, durable=False, grace_seconds=0) as attachment:
        assert len(postmasters(server_home(data_dir).cluster)) == 1
        with psycopg.connect(attachment.owner_dsn) as connection:
            connection.execute("create table made (v text)")
        with psycopg.connect(attachment.app_dsn) as connection:
            leakproof = "select count(*) from pg_proc where proleakproof and proname = %s"
            for name in ("ts_match_vq", "jsonb_contains"):
                assert connection.execute(leakproof, [name]).fetchone() == (1,)


@pytest.mark.parametrize(
    "moment", ["initdb is at work", "the first session runs", "the server has begun"]
)
def test_database_starts_after_a_first_start_was_killed(data_dir: Path, moment: str) -> None:
    client = begin(data_dir, moment)
    for keeper in keepers(data_dir):
        kill(*descendants(keeper))
    client.kill()
    check_complete(data_dir)
    assert not list((data_dir / "server").glob("*unfinished*"))


@pytest.mark.parametrize("moment", ["initdb is at work", "the database is there"])
def test_database_starts_after_supervisor_was_killed_while_starting(
    data_dir: Path, moment: str
) -> None:
    client = begin(data_dir, moment)
    kill(*keepers(data_dir))
    client.kill()
    check_complete(data_dir)


def test_second_keeper_of_a_database_ends_without_an_error(used: Path) -> None:
    with attach(used, durable=False, grace_seconds=0) as attachment:
        receiver, sender = os.pipe()
        words = ["-m", "waybook.embedded_postgres.cluster", str(used), EPHEMERAL, "0", str(sender)]
        subprocess.run([sys.executable, *words], pass_fds=[sender], check=True)
        os.close(sender)
        with os.fdopen(receiver) as reports:
            assert json.load(reports) == {"ready": False}
        assert reached(attachment.app_dsn)


def test_process_killed_while_starting_database_does_not_block_another(data_dir: Path) -> None:
    first = begin(data_dir, "the keeper has begun")
    second = start_client(data_dir)
    first.kill()
    assert "app_dsn" in second.complete()
    assert len(postmasters(server_home(data_dir).cluster)) == 1
    second.end()
