"""Helpers for the processes of the embedded PostgreSQL: clients, servers and supervisors."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from patience import PATIENCE_SECONDS

T = TypeVar("T")


CLIENT = """
import json, sys
from pathlib import Path
from typing import TypeVar
from waybook.errors import WaybookError
from waybook.embedded_postgres.supervisor import attach
try:
    attachment = attach(
        Path(sys.argv[1]), durable=sys.argv[2] == "durable", grace_seconds=float(sys.argv[3])
    )
except WaybookError as error:
    print(json.dumps({"error": type(error).__name__, "message": error.message}), flush=True)
else:
    print(json.dumps({"app_dsn": attachment.app_dsn, "version": attachment.version}), flush=True)
    sys.stdin.read()
    attachment.close()
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Operating-system user, Python interpreter and environment variables of a client process."""

    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)
    uid: int | None = None


OURS = Surroundings()


@dataclass(frozen=True, slots=True)
class Client:
    """Process that uses the embedded PostgreSQL until its stdin is closed or it is killed."""

    process: subprocess.Popen[str]

    def complete(self) -> dict[str, str]:
        """Wait until the process uses the database; return what the process then prints."""
        assert self.process.stdout is not None
        reply: dict[str, str] = json.loads(self.process.stdout.readline())
        return reply

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()


def start_client(
    data_dir: Path, *, durable: bool = False, grace: float = 0.0, around: Surroundings = OURS
) -> Client:
    """Start a client process, without waiting until it uses the database."""
    durability = "durable" if durable else "fleeting"
    process = subprocess.Popen(
        [around.python, "-c", CLIENT, data_dir, durability, str(grace)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=around.uid,
        group=around.uid,
        extra_groups=None if around.uid is None else [],
        env=os.environ | around.variables,
        cwd="/",
    )
    return Client(process)


@contextmanager
def open_client(
    data_dir: Path, *, durable: bool = False, grace: float = 0.0, around: Surroundings = OURS
) -> Iterator[Client]:
    client = start_client(data_dir, durable=durable, grace=grace, around=around)
    try:
        yield client
    finally:
        client.end()


def eventually(condition: Callable[[], T], what: str) -> T:
    """Wait until the condition returns a truthy value; return the value."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)
    return value


def postmasters(cluster: Path) -> list[int]:
    """Return the process ids of the cluster's PostgreSQL servers.

    If the parent of a process cannot be read, the process has just ended, and is left out.
    """
    parents = {pid: _parent(pid) for pid in _processes() if _directory(pid) == cluster}
    return [pid for pid, parent in parents.items() if parent and parent not in parents]


def keepers(data_dir: Path) -> list[int]:
    words = (b"waybook.embedded_postgres.cluster", os.fsencode(data_dir))
    return [pid for pid in _processes() if all(word in _command(pid) for word in words)]


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the process and its child processes, and their child processes, and so on."""
    children = [child for child in _processes() if _parent(child) == pid]
    return [pid, *(descendant for child in children for descendant in descendants(child))]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def process_state(pid: int) -> str:
    """Return the letter for the state of a process; `Z` if the process does not exist."""
    return _status(pid)[0]


def _parent(pid: int) -> int:
    return int(_status(pid)[1])


def _status(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "0"]


def _directory(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
