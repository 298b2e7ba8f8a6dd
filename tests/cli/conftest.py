"""Fixtures for tests of commands. All tests of a pytest worker share an embedded database."""

from collections.abc import Iterator

import pytest

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from postgres_servers import ensure_cheap_passwords
from run_place import run_directory
from waybook.embedded_postgres.supervisor import Attachment, attach


@pytest.fixture(scope="session")
def attachment() -> Iterator[Attachment]:
    with make_data_directory(parent=run_directory()) as place, attach(place / "data") as attached:
        ensure_cheap_passwords(attached)
        yield attached


@pytest.fixture(scope="session")
def terminal(attachment: Attachment) -> Terminal:
    return Terminal(attachment.data_dir)
