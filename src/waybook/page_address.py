"""Let one process serve the dashboard of a data directory, and record the dashboard's URL.

The process that serves the dashboard holds `pages.lock` and writes its URL to `pages.json`.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import write_private
from waybook.embedded_postgres.data_directory import ControlDirectory, create_control_directory
from waybook.settings import Settings

#: Maximum seconds that `waybook serve` waits for a stdio process to stop serving the dashboard.
_MAX_HANDOVER_SECONDS: Final = 10.0
#: Maximum seconds that `waybook serve` waits for `serve.lock`.
_MAX_PROBE_SECONDS: Final = 0.2
POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    url: str
    command: str
    pid: int

    @property
    def port(self) -> int | None:
        try:
            return urlsplit(self.url).port
        except ValueError:
            return None


def _read_record(control_dir: ControlDirectory) -> PageRecord | None:
    try:
        record = PageRecord(**json.loads(control_dir.pages_record.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return record if isinstance(record.url, str) else None


def find_page_server(settings: Settings) -> PageRecord | None:
    if settings.database_url:
        return None
    control_dir = ControlDirectory(_absolute(settings))
    try:
        is_served = control_dir.pages_lock.exists() and locks.is_held(control_dir.pages_lock)
    # This process may not read the data directory, or the directory was just deleted.
    except OSError:
        return None
    return _read_record(control_dir) if is_served else None


def current_base_url(settings: Settings) -> str:
    server = None if settings.public_url else find_page_server(settings)
    return server.url if server else settings.base_url


def can_serve_pages(settings: Settings) -> bool:
    is_elsewhere = settings.database_url or settings.public_url
    needs_credentials = settings.token or settings.requires_auth
    return settings.pages == "on" and not is_elsewhere and not needs_credentials


def _absolute(settings: Settings) -> Path:
    return Path(os.path.abspath(settings.data_dir))  # noqa: PTH100 - symbolic links stay as they are


class PageClaim:
    def __init__(self, settings: Settings, command: str) -> None:
        """Prepare to serve the dashboard, without a lock yet. `command` is stored with the URL."""
        self._control_dir = create_control_directory(_absolute(settings))
        self._command = command
        self._descriptors: dict[Path, int] = {}

    @property
    def last_port(self) -> int | None:
        """Return the port at which the dashboard was last served.

        Reusing the port keeps old links valid.
        """
        record = _read_record(self._control_dir)
        return record.port if record else None

    def try_take(self) -> bool:
        return self._try_lock(self._control_dir.pages_lock)

    def record(self, url: str) -> None:
        record = PageRecord(url=url, command=self._command, pid=os.getpid())
        write_private(self._control_dir.pages_record, json.dumps(asdict(record)).encode())

    def is_server_running(self) -> bool:
        """Return whether `waybook serve` is running."""
        return locks.is_held(self._control_dir.serve_lock)

    def try_record_server(self, url: str) -> bool:
        """Record the URL of `waybook serve`. Return False if another process holds a lock."""
        if not self._try_lock(self._control_dir.serve_lock) or not self.try_take():
            return False
        self.record(url)
        return True

    def wait_for_handover(self) -> None:
        """Wait until a stdio process that serves the dashboard has released its port."""
        begun = time.monotonic()
        while not self._try_lock(self._control_dir.serve_lock):
            if time.monotonic() > begun + _MAX_PROBE_SECONDS:
                return
            time.sleep(POLL_SECONDS)
        while not self.try_take() and time.monotonic() < begun + _MAX_HANDOVER_SECONDS:
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _try_lock(self, path: Path) -> bool:
        if path in self._descriptors:
            return True
        descriptor = locks.open_lock(path)
        try:
            is_taken = locks.try_exclusive(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if is_taken:
            self._descriptors[path] = descriptor
        else:
            os.close(descriptor)
        return is_taken


@contextmanager
def server_claim(settings: Settings) -> Iterator[PageClaim | None]:
    """Yield the dashboard locks of `waybook serve`, or None with a configured database URL."""
    if settings.database_url:
        yield None
        return
    claim = PageClaim(settings, "waybook serve")
    try:
        claim.wait_for_handover()
        yield claim
    finally:
        claim.close()
