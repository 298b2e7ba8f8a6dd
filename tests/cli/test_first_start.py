"""First start on an empty machine: what is created, what is reported, and what stops it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from run_place import run_directory


@pytest.fixture
def empty() -> Iterator[Path]:
    """Yield the path of a data directory that does not exist yet."""
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


def test_doctor_has_no_warning_before_and_after_first_use(empty: Path) -> None:
    terminal = Terminal(empty)
    for command in ("doctor", "plans"):
        terminal.say(command)
        report = json.loads(terminal.say("doctor", "--json", "--port", "0"))
        assert [check for check in report["checks"] if check["state"] != "ok"] == []
