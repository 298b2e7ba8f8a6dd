"""Directory of one test run, which contains its database servers and a list of missing programs."""

import os
import shutil
import tempfile
from pathlib import Path

from embedded_postgres.data_directories import remove_data_directory
from embedded_postgres.processes import eventually

PLACE = "WAYBOOK_TEST_PLACE"
FIFTEEN = Path(os.environ.get("WAYBOOK_TEST_FIFTEEN", "/usr/lib/postgresql/15/bin"))

NO_FIFTEEN = f"PostgreSQL 15 is not installed here ({FIFTEEN})"
NO_PGBOUNCER = "pgbouncer is not installed here"
NO_PGVECTOR = "no PostgreSQL here has a pgvector that runs on this processor"


def open_place() -> int:
    """Create the directory of this test run, and a pipe that stays open during the run."""
    place = Path(tempfile.mkdtemp(prefix="waybook-run-")).resolve()
    place.chmod(0o755)
    os.environ[PLACE] = str(place)
    os.mkfifo(place / "alive")
    (place / "alive").chmod(0o644)
    return os.open(place / "alive", os.O_RDWR)


def close_place(alive: int) -> None:
    """Stop the database servers of this test run, and remove its directory."""
    place = Path(os.environ.pop(PLACE))
    os.close(alive)
    if (place / "18").exists():
        remove_data_directory(place / "18")
    eventually(lambda: not list(place.glob("15/.s.PGSQL.*")), "the server has ended")
    shutil.rmtree(place, ignore_errors=True)
