"""Embedded database for command tests, shared by all tests of a worker."""

from collections.abc import Iterator

import pytest

from cli.terminal import Terminal
from postgres.places import a_place
from waybook.embedded_postgres.supervisor import Attachment, attach


@pytest.fixture(scope="session")
def attachment() -> Iterator[Attachment]:
    with a_place() as place, attach(place / "data") as attached:
        yield attached


@pytest.fixture(scope="session")
def terminal(attachment: Attachment) -> Terminal:
    return Terminal(attachment.data_dir)
