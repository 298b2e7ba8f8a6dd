"""The log of the embedded PostgreSQL is bounded, and its last lines can be shown."""

import os
from pathlib import Path

from waybook.embedded_postgres.layout import open_log, rotate, tail


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
