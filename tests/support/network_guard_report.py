"""Guard that fails a test that tries to connect to another machine."""

import os
import tempfile
from pathlib import Path

import pytest

from network_guard import sitecustomize

GUARD = Path(sitecustomize.__file__).parent


def start_guard() -> None:
    """Record connections to other machines from this process and every Python process it starts."""
    descriptor, place = tempfile.mkstemp(prefix="waybook-network-")
    os.close(descriptor)
    # The file is writable for all users, because PostgreSQL may run as another user.
    Path(place).chmod(0o666)
    os.environ[sitecustomize.NOTED] = place
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(GUARD) not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(GUARD), *path]))
    sitecustomize.install()


def stop_guard() -> None:
    recorded_attempts().unlink(missing_ok=True)
    del os.environ[sitecustomize.NOTED]


def recorded_attempts() -> Path:
    return Path(os.environ[sitecustomize.NOTED])


def fail_on_network_use(place: Path) -> None:
    """Fail the test if a connection attempt was recorded; report each attempt once."""
    if place.stat().st_size:
        tried = place.read_text("utf-8")
        place.write_text("")
        pytest.fail(f"the test tried to connect to another machine:\n{tried}", pytrace=False)
