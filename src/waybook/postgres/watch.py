"""A client's eye on the keeper: if it is killed, the next one is started without being asked.

Whoever leaves looks once more: a server without a keeper would never be stopped.
"""

import logging
import threading

from waybook.errors import WaybookError
from waybook.postgres import locks
from waybook.postgres.launch import Options, ensure_running
from waybook.postgres.layout import ControlDirectory

POLL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 8.0

logger = logging.getLogger(__name__)


class SupervisorMonitor:
    """Looks for the keeper once a second, in a thread, until it is closed."""

    def __init__(self, desk: ControlDirectory, options: Options) -> None:
        self._desk = desk
        self._options = options
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._look, name="waybook-postgres-watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Look a last time, and no more."""
        self._closed.set()
        self._thread.join(POLL_SECONDS)
        self._found()

    def _look(self) -> None:
        pause = POLL_SECONDS
        while not self._closed.wait(pause):
            pause = POLL_SECONDS if self._found() else min(pause * 2, MAX_PAUSE_SECONDS)

    def _found(self) -> bool:
        """Whether there is a keeper, if need be a new one."""
        try:
            if not locks.is_held(self._desk.supervisor_lock):
                ensure_running(self._desk, self._options)
        except (WaybookError, OSError) as error:
            logger.error("the embedded PostgreSQL has no keeper: %s", error)  # noqa: TRY400 - the message says it
            return False
        return True
