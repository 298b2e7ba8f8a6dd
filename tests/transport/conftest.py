"""What the tests of the faces share."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance: judged by the protocol's own suite (Node)")
