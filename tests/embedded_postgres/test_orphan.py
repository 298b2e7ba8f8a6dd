"""A stale pid file that contains the pid of an unrelated process: this process is not killed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from embedded_postgres.data_directories import server_home
from waybook.embedded_postgres.data_directory import server_account
from waybook.embedded_postgres.layout import SOCKET_NAME
from waybook.embedded_postgres.supervisor import attach


@contextmanager
def open_innocent_process() -> Iterator[subprocess.Popen[bytes]]:
    """Run, as the server's OS user, a process that could be mistaken for the server."""
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
    """Write a pid file in PostgreSQL's format."""
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
