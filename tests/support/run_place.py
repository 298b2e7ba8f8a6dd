"""Directory of one test run, which contains the files of its database servers."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from embedded_postgres.data_directories import remove_data_directory
from embedded_postgres.processes import eventually

PLACE = "WAYBOOK_TEST_PLACE"
#: Environment variable with the DSN of the administrator of a Citus cluster's coordinator.
CITUS = "WAYBOOK_TEST_CITUS"

#: Prefix of the name of a test run's directory.
PREFIX = "waybook-run-"
#: File system in memory on Linux. A new database has 600 files, which take 20 to 250 ms of CPU time
#: to create on a disk, and 15 ms in memory.
MEMORY = Path("/dev") / "shm"
MIN_FREE_MEMORY_BYTES = 4 * 2**30


def open_place() -> int:
    """Create the directory of this test run, with a pipe that stays open until the run ends."""
    remove_abandoned_places()
    place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=find_memory())).resolve()
    place.chmod(0o755)
    os.environ[PLACE] = str(place)
    os.mkfifo(place / "alive")
    (place / "alive").chmod(0o644)
    return os.open(place / "alive", os.O_RDWR)


def run_directory() -> Path:
    return Path(os.environ[PLACE])


def find_memory() -> Path | None:
    """Return the file system in memory, or None if it does not exist or has too little space."""
    if not os.access(MEMORY, os.W_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free >= MIN_FREE_MEMORY_BYTES else None


def remove_abandoned_places() -> None:
    for pipe in MEMORY.glob(f"{PREFIX}*/alive"):
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno == errno.ENXIO:  # The pipe has no reader, so the test run has ended.
                shutil.rmtree(pipe.parent, ignore_errors=True)


def close_place(alive: int) -> None:
    place = Path(os.environ.pop(PLACE))
    os.close(alive)
    if (place / "18").exists():
        remove_data_directory(place / "18")
    eventually(lambda: not list(place.glob("15/.s.PGSQL.*")), "the server has ended")
    shutil.rmtree(place, ignore_errors=True)
