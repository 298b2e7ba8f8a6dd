"""Fixtures: an unused data directory, and one that has a finished cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.places import a_place
from postgres.processes import a_client, eventually, keepers


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Yield a data directory that does not exist yet."""
    with a_place() as place:
        yield place / "data"


@pytest.fixture(scope="session")
def used_place() -> Iterator[Path]:
    with a_place() as place:
        data_dir = place / "data"
        with a_client(data_dir) as client:
            assert "app_dsn" in client.complete()
        yield data_dir


@pytest.fixture
def used(used_place: Path) -> Iterator[Path]:
    """Yield a data directory with a finished cluster and no server running, before and after."""
    eventually(lambda: not keepers(used_place), "the keeper before has ended")
    yield used_place
    eventually(lambda: not keepers(used_place), "the keeper has ended")
