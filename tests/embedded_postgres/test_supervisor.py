"""Supervisor: it starts one server for all clients, and handles the server's pid file and log."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from embedded_postgres.data_directories import server_home
from embedded_postgres.processes import eventually, keepers, postmasters, start_client
from waybook.embedded_postgres.connection import SOCKET_NAME
from waybook.embedded_postgres.data_directory import (
    ControlDirectory,
    open_log,
    rotate,
    server_account,
    tail,
)
from waybook.embedded_postgres.supervisor import attach
from waybook.errors import Misconfigured, Unavailable


def test_eight_concurrent_first_starts_create_a_single_database_server(data_dir: Path) -> None:
    clients = [start_client(data_dir, grace=1) for _ in range(8)]
    answers = [client.complete() for client in clients]
    assert len({answer["app_dsn"] for answer in answers}) == 1
    assert len(postmasters(server_home(data_dir).cluster)) == 1
    assert len(keepers(data_dir)) == 1
    for client in clients:
        client.end()


def test_database_server_stops_after_the_last_client_has_closed(used: Path) -> None:
    first = attach(used, durable=False, grace_seconds=0)
    second = attach(used, durable=False)
    first.close()
    first.close()
    with psycopg.connect(second.app_dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    second.close()
    cluster = server_home(used).cluster
    eventually(lambda: not postmasters(cluster), "the server has stopped")


def test_database_server_without_durability_is_refused_by_default(used: Path) -> None:
    with (
        attach(used, durable=False, grace_seconds=0),
        pytest.raises(Misconfigured, match="without durability"),
    ):
        attach(used)


def test_connection_file_is_readable_by_owner_only(used: Path) -> None:
    control_dir = ControlDirectory(used)
    status = control_dir.connection.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == os.geteuid()
    assert stat.S_IMODE(control_dir.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(server_home(used).directory.stat().st_mode) == 0o700


def test_client_can_connect_after_connection_file_was_deleted(used: Path) -> None:
    ControlDirectory(used).connection.unlink()
    with (
        attach(used, durable=False, grace_seconds=0) as attachment,
        psycopg.connect(attachment.app_dsn) as connection,
    ):
        assert connection.execute("select current_user").fetchone() == ("waybook_app",)


def test_database_of_another_major_version_is_refused_and_unchanged(used: Path) -> None:
    version = server_home(used).cluster / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(Misconfigured, match=r"PostgreSQL 17.*PostgreSQL 18.*pg_dump"):
        attach(used, durable=False)
    assert version.read_text() == "17\n"
    version.write_text("18\n")


def test_failed_database_start_raises_unavailable_with_log(used: Path) -> None:
    settings = server_home(used).cluster / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(before + "no_such_setting = 1\n")
    with pytest.raises(Unavailable, match=r"(?s)server\.log.*no_such_setting"):
        attach(used, durable=False)
    settings.write_text(before)


def test_data_directory_that_cannot_be_created_raises_misconfigured(data_dir: Path) -> None:
    data_dir.parent.joinpath("file").write_text("no directory")
    with pytest.raises(Misconfigured, match="--data-dir"):
        attach(data_dir.parent / "file" / "data")


# Tests of outdated pid files.


@contextmanager
def open_innocent_process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of the server's user that a check of pid files might mistake for the server."""
    account = server_account()
    user = account.uid if account.is_other_user else None
    process = subprocess.Popen(["sleep", "300"], user=user, cwd="/")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


RECORDS = ("cluster/postmaster.pid", f"socket/{SOCKET_NAME}.lock")


def write_record(data_dir: Path, record: str, content: str) -> None:
    """Write a pid file with this content."""
    home = server_home(data_dir)
    path = home.directory / record
    path.write_text(content)
    owner = home.cluster.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


@pytest.mark.parametrize(("record", "sign"), [*zip(RECORDS, ["", "-"], strict=True)])
def test_outdated_pid_file_never_kills_another_process(used: Path, record: str, sign: str) -> None:
    cluster = server_home(used).cluster
    with open_innocent_process() as innocent:
        content = f"{sign}{innocent.pid}\n{cluster}\n1700000000\n5432\n\n\n"
        write_record(used, record, content)
        with (
            attach(used, durable=False, grace_seconds=0) as attachment,
            psycopg.connect(attachment.app_dsn) as connection,
        ):
            assert connection.execute("select 1").fetchone() == (1,)
            assert innocent.poll() is None
        assert innocent.poll() is None


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("content", ["", "99999999\n"])
def test_database_server_starts_despite_a_malformed_pid_file(
    used: Path, record: str, content: str
) -> None:
    write_record(used, record, content)
    with attach(used, durable=False, grace_seconds=0) as attachment:
        psycopg.connect(attachment.app_dsn).close()


# Tests of the log.


def test_database_log_can_be_rotated_while_in_use(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    writer = open_log(log)
    os.write(writer, b"old " * 100)
    rotate(log, largest=100)
    os.write(writer, b"new")
    os.close(writer)
    assert log.read_bytes() == b"new"
    assert (tmp_path / "server.log.1").read_bytes() == b"old " * 25


def test_log_rotation_leaves_small_or_missing_database_logs_unchanged(tmp_path: Path) -> None:
    rotate(tmp_path / "missing.log")
    (tmp_path / "server.log").write_bytes(b"little")
    rotate(tmp_path / "server.log")
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_log_tail_returns_the_last_lines_after_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("before\n" + "".join(f"line {number}\n" for number in range(20)))
    assert tail(log).splitlines()[0] == "line 8"
    with log.open("a") as more:
        more.write("2026-01-01 [1] app@book FATAL:  the database system is starting up\n")
    assert tail(log).splitlines()[-1] == "line 19"
    assert tail(log, log.stat().st_size) == ""
    assert tail(tmp_path / "missing.log") == ""
