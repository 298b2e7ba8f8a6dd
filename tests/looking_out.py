"""Whether a test looked beyond this machine: then it fails, whatever it says itself."""

import os
import tempfile
from pathlib import Path

import pytest

from guarded import sitecustomize

GUARD = Path(sitecustomize.__file__).parent


def watch_over_this_run() -> None:
    """Hold this process to this machine, and every Python that it starts."""
    descriptor, place = tempfile.mkstemp(prefix="waybook-network-")
    os.close(descriptor)
    Path(place).chmod(0o666)  # whoever serves PostgreSQL may be somebody else
    os.environ[sitecustomize.NOTED] = place
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(GUARD) not in path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(GUARD), *path]))
    sitecustomize.install()


def stop_watching() -> None:
    """Forget what was noted."""
    noted().unlink(missing_ok=True)
    del os.environ[sitecustomize.NOTED]


def noted() -> Path:
    """Where attempts are noted."""
    return Path(os.environ[sitecustomize.NOTED])


def complain(place: Path) -> None:
    """Fail if something was noted; it is told once."""
    if place.stat().st_size:
        tried = place.read_text("utf-8")
        place.write_text("")
        pytest.fail(f"this looked beyond this machine:\n{tried}", pytrace=False)
