"""Network guard, which keeps tests from connecting to other machines."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from network_guard.sitecustomize import NOTED, is_local_address
from network_guard_report import fail_on_network_use

#: IP address reserved for documentation, so no host has it.
UNREACHABLE = "192.0.2.1"
CONNECTS = f"import socket; socket.create_connection(('{UNREACHABLE}', 9), 1)"


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which the guard records refused connections of this test."""
    monkeypatch.setenv(NOTED, str(tmp_path / "noted"))
    return tmp_path / "noted"


def test_network_guard_records_and_refuses_connections_to_other_machines(noted: Path) -> None:
    with pytest.raises(OSError, match="beyond this machine"):
        socket.create_connection((UNREACHABLE, 9), 1)
    with pytest.raises(OSError, match="beyond this machine"):
        socket.getaddrinfo("example.org", 80)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        pytest.raises(OSError, match="beyond this machine"),
    ):
        sending.sendto(b"x", (UNREACHABLE, 53))
    assert noted.read_text().count("\n") == 3


def test_network_guard_applies_to_subprocesses(noted: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECTS], capture_output=True, text=True, check=False
    )
    assert "beyond this machine" in done.stderr
    assert UNREACHABLE in noted.read_text()


def test_network_guard_fails_a_test_that_catches_the_connection_error(noted: Path) -> None:
    noted.touch()
    fail_on_network_use(noted)
    with suppress(OSError):
        socket.create_connection((UNREACHABLE, 9), 1)
    with pytest.raises(pytest.fail.Exception, match=UNREACHABLE):
        fail_on_network_use(noted)
    fail_on_network_use(noted)


@pytest.mark.parametrize(
    "address",
    [
        *(("127.0.0.1", 1), ("127.3.4.5", 1), ("::1", 1, 0, 0), ("localhost", 1), ("", 1)),
        *("/run/socket", b"/run/socket", "\0abstract", None, "localhost", b"127.0.0.1", (0, 0)),
    ],
)
def test_network_guard_allows_addresses_of_this_machine(address: object) -> None:
    assert is_local_address(address)


@pytest.mark.parametrize(
    "address",
    [
        *(("192.0.2.1", 1), ("10.0.0.1", 1), ("169.254.169.254", 80), ("fe80::1%lo", 1, 0, 0)),
        *("example.org", b"example.org", "localhost.example.org", ("::", 1)),
    ],
)
def test_network_guard_refuses_addresses_outside_this_machine(address: object) -> None:
    assert not is_local_address(address)


def test_network_guard_is_enabled_for_every_test() -> None:
    assert Path(os.environ[NOTED]).exists()
    assert str(Path(__file__).parent / "network_guard") in os.environ["PYTHONPATH"].split(
        os.pathsep
    )
