"""Leadership: one process per database does the periodic background work for all orgs.

The leader holds an advisory lock in a transaction that it keeps open on its own connection. The
lock belongs to the transaction rather than to the session, so that it also works through a pooler,
and PostgreSQL releases it when the connection ends. An open transaction that has written nothing
and runs no statement does not hold back vacuum.

Leadership saves work, and nothing relies on it: background work may run in several processes at
once. A process that is not the leader does it too, but rarely, in case the leader hangs.
"""

import asyncio
import time
from collections.abc import Callable

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.errors import Unavailable
from waybook.store.driver.database import Database
from waybook.store.driver.dial import connect
from waybook.store.driver.queries import Query, load

SQL = load("driver/leadership")

#: Seconds between two attempts to become the leader and between two probes of the leader's
#: connection; also the maximum seconds to wait for an answer.
ATTEMPT_SECONDS = 10.0
PROBE_SECONDS = 10.0
ANSWER_SECONDS = 5.0
#: Seconds after which a process that is not the leader does the background work once.
FALLBACK_SECONDS = 900.0


class Leadership:
    """State of the leadership, and when this process last did each kind of background work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start as a process that is not the leader."""
        self.is_leader = False
        self._clock = clock
        self._started = clock()
        self._done: dict[str, float] = {}
        #: For each kind of work, the start time of the last finished pass over all orgs.
        self._finished: dict[str, float] = {}

    def take_turn(self, work: str) -> bool:
        """Return whether this process does this work for all orgs now, and remember that it does.

        >>> now = [0.0]
        >>> leadership = Leadership(lambda: now[0])
        >>> leadership.take_turn("sweep")
        False
        >>> now[0] = FALLBACK_SECONDS
        >>> leadership.take_turn("sweep"), leadership.take_turn("sweep")
        (True, False)
        >>> leadership.is_leader = True
        >>> leadership.take_turn("sweep")
        True
        """
        now = self._clock()
        due = self._done.get(work, self._started) + FALLBACK_SECONDS
        if not self.is_leader and now < due:
            return False
        self._done[work] = now
        return True

    def finish_turn(self, work: str) -> None:
        """Record that this work is done for all orgs; its lag counts from the start of its turn."""
        self._finished[work] = self._done[work]

    def lags(self) -> dict[str, float]:
        """Return for each kind of work how many seconds ago its last finished pass began.

        >>> now = [0.0]
        >>> leadership = Leadership(lambda: now[0])
        >>> leadership.is_leader = True
        >>> leadership.take_turn("sweep"), leadership.lags()
        (True, {})
        >>> now[0] = 2.0
        >>> leadership.finish_turn("sweep")
        >>> leadership.lags()
        {'sweep': 2.0}
        """
        now = self._clock()
        return {work: now - begun for work, begun in self._finished.items()}


async def hold_leadership(database: Database, leadership: Leadership) -> None:
    """Become the leader if no other process is, and remain it until the connection breaks.

    Return if another process is the leader.

    Raises:
        Unavailable: the connection broke, which ended the leadership.
    """
    try:
        async with await connect(database.dsn) as connection:
            if not await _ask(connection, SQL["try_lead"]):
                return
            leadership.is_leader = True
            while True:
                await asyncio.sleep(PROBE_SECONDS)
                await _ask(connection, SQL["probe"])
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("the connection that holds the leadership broke") from error
    finally:
        leadership.is_leader = False


async def _ask(connection: AsyncConnection[TupleRow], query: Query) -> bool:
    async with asyncio.timeout(ANSWER_SECONDS):
        row = await (await connection.execute(query.text.encode())).fetchone()
    return bool(row and row[0])
