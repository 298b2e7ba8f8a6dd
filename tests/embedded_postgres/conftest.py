"""Fixtures for an empty data directory, and for a data directory with a PostgreSQL cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_postgres.data_directories import make_data_directory
from embedded_postgres.processes import eventually, keepers, open_client
from run_place import run_directory


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


@pytest.fixture(scope="session")
def used_place() -> Iterator[Path]:
    with make_data_directory(parent=run_directory()) as place:
        data_dir = place / "data"
        with open_client(data_dir) as client:
            assert "app_dsn" in client.complete()
        yield data_dir


@pytest.fixture
def used(used_place: Path) -> Iterator[Path]:
    eventually(lambda: not keepers(used_place), "the keeper before has ended")
    yield used_place
    eventually(lambda: not keepers(used_place), "the keeper has ended")
