"""Attaching to the embedded PostgreSQL: its connection, and one server for all clients."""

import os
import stat
from pathlib import Path

import psycopg
import pytest

from embedded_postgres.data_directories import server_home
from embedded_postgres.processes import eventually, keepers, open_client, postmasters, start_client
from waybook.embedded_postgres.layout import ControlDirectory
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


def test_several_clients_share_a_single_database_server(used: Path) -> None:
    with attach(used, durable=False, grace_seconds=0) as first:
        before = postmasters(server_home(used).cluster)
        with attach(used, durable=False) as second, open_client(used) as third:
            assert third.complete()["app_dsn"] == first.app_dsn == second.app_dsn
            assert postmasters(server_home(used).cluster) == before
            assert len(before) == 1


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


def test_committed_rows_survive_a_restart_of_the_database_server(used: Path) -> None:
    with (
        attach(used, durable=False, grace_seconds=0) as first,
        psycopg.connect(first.owner_dsn) as connection,
    ):
        connection.execute("create table kept (word text)")
        connection.execute("insert into kept values ('still here')")
    eventually(lambda: not keepers(used), "the server has stopped")
    with attach(used, durable=False, grace_seconds=0) as again:
        assert again.owner_dsn == first.owner_dsn
        with psycopg.connect(again.owner_dsn) as connection:
            assert connection.execute("select word from kept").fetchall() == [("still here",)]


def test_attaching_to_embedded_database_returns_directory_and_version(used: Path) -> None:
    with attach(used, durable=False, grace_seconds=0) as attachment:
        assert attachment.data_dir == used
        with psycopg.connect(attachment.app_dsn) as connection:
            assert connection.info.parameter_status("server_version") == attachment.version


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
