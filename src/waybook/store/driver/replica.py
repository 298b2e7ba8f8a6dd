"""A read replica, which serves reads once it has caught up.

If the replica is too far behind or does not answer, reads go to the primary.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple
from uuid import UUID

import psycopg

from waybook.errors import Busy, Unavailable
from waybook.settings import Settings
from waybook.store.driver.addresses import require_standby
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Statement, first_value, load

log = logging.getLogger(__name__)


class ReplayedRow(NamedTuple):
    is_current: bool
    seconds: float | None


SQL = load("driver/replica", replayed=ReplayedRow)

ANSWER_SECONDS = 1.0
POLL_SECONDS = 0.01
#: Pauses in the use of the replica after a failure. The pause doubles with each failure.
MIN_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0


class ReplicaState(NamedTuple):
    is_current: bool
    lag_seconds: float | None


UNREACHABLE = ReplicaState(is_current=False, lag_seconds=None)


class Replica:
    def __init__(
        self,
        database: Database,
        max_lag_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the replica. A read waits up to `max_lag_seconds` for the replica to catch up."""
        self.database = database
        self._clock = clock
        self.max_lag_seconds = max_lag_seconds
        self.state: ReplicaState | None = None
        self.served = 0
        self.fallbacks = 0
        self._failures = 0
        self._paused_until = 0.0

    async def check(self, primary: Database) -> ReplicaState:
        """Check whether the replica has every change that the primary has committed."""
        state = await self._check(primary)
        self.served += state.is_current
        self.fallbacks += not state.is_current
        return state

    async def read_org(self, org_id: UUID, *statements: Statement | str) -> Results | None:
        if self._is_paused():
            return None
        try:
            return await self.database.read_org(org_id, *statements)
        except (Busy, Unavailable, psycopg.Error) as error:
            self._fail(UNREACHABLE, str(error))
            return None

    async def _check(self, primary: Database) -> ReplicaState:
        if self._is_paused():
            return self.state or UNREACHABLE
        if self._failures:
            # Only one request at a time finds out whether the replica works again.
            self._pause()
        (rows,) = await primary.read_global(SQL["flushed"]())
        try:
            async with asyncio.timeout(self.max_lag_seconds + ANSWER_SECONDS):
                state = await self._catch_up(first_value(rows))
        except (Busy, Unavailable, TimeoutError, psycopg.Error) as error:
            return self._fail(UNREACHABLE, str(error) or "it did not answer in time")
        if not state.is_current:
            return self._fail(state, "it is too far behind")
        if self._failures:
            log.info("pages are read from the replica again")
        self._failures, self.state = 0, state
        return state

    async def _catch_up(self, position: str) -> ReplicaState:
        begun = self._clock()
        while True:
            (rows,) = await self.database.read_global(SQL["replayed"](position=position))
            row: ReplayedRow = rows[0]
            waited = self._clock() - begun
            if row.is_current:
                return ReplicaState(is_current=True, lag_seconds=waited)
            if waited >= self.max_lag_seconds:
                return ReplicaState(is_current=False, lag_seconds=max(row.seconds or 0.0, waited))
            await asyncio.sleep(POLL_SECONDS)

    def _fail(self, state: ReplicaState, reason: str) -> ReplicaState:
        """Use only the primary for a while."""
        if not self._failures:
            log.warning("pages are read from the primary, not from the replica: %s", reason)
        self._failures += 1
        self._pause()
        self.database.pool.close_free()
        self.state = state
        return state

    def _pause(self) -> None:
        seconds = min(MIN_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 32), MAX_PAUSE_SECONDS)
        self._paused_until = self._clock() + seconds

    def _is_paused(self) -> bool:
        return self._clock() < self._paused_until


@contextmanager
def open_replica(settings: Settings, role: str | None) -> Iterator[Replica | None]:
    if settings.replica_url is None:
        yield None
        return
    dsn = require_standby(settings.replica_url)
    pool = ConnectionPool(dsn, size=settings.pool_size, timeout=ANSWER_SECONDS)
    with closing(Database(pool, role=role)) as database:
        yield Replica(database, settings.replica_lag_ms / 1000)
