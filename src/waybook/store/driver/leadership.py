"""Selects one process per database, the leader, that does periodic background work for all orgs.

The other processes do the work too, but less often, so that the work continues if the leader
hangs. The same work may safely be done twice.
"""

import asyncio
import time
from collections.abc import Callable

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.errors import Unavailable
from waybook.store.driver.addresses import connect
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Query, load

SQL = load("driver/leadership")

ATTEMPT_SECONDS = 10.0
PROBE_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
#: Seconds after which a process that is not the leader does the background work too.
_FALLBACK_SECONDS = 900.0
#: Name of the work of sending webhook messages. Only a process with a configured webhook does this
#: work.
DELIVERY = "deliver"


class Leadership:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_leader = False
        #: Whether this process sends the webhook messages of all orgs.
        self.delivers = False
        self._clock = clock
        self._started = clock()
        self._done: dict[str, float] = {}
        self._finished: dict[str, float] = {}

    def leads(self, work: str) -> bool:
        return self.delivers if work == DELIVERY else self.is_leader

    def take_turn(self, work: str) -> bool:
        """Return whether this process should do this work now, and if so, record the time.

        >>> now = [0.0]
        >>> leadership = Leadership(lambda: now[0])
        >>> leadership.take_turn("sweep")
        False
        >>> now[0] = _FALLBACK_SECONDS
        >>> leadership.take_turn("sweep"), leadership.take_turn("sweep")
        (True, False)
        >>> leadership.is_leader = True
        >>> leadership.take_turn("sweep")
        True
        """
        now = self._clock()
        due = self._done.get(work, self._started) + _FALLBACK_SECONDS
        if not self.leads(work) and now < due:
            return False
        self._done[work] = now
        return True

    def finish_turn(self, work: str) -> None:
        self._finished[work] = self._done[work]

    def lags(self) -> dict[str, float]:
        """Return how many seconds ago the last finished pass of each kind of work began.

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
        return {work: now - begun for work, begun in self._finished.items() if self.leads(work)}


async def hold_leadership(
    database: Database, leadership: Leadership, *, has_webhook: bool = False
) -> None:
    """Try to become the leader, and lead until the connection breaks. Return if another leads.

    Raises:
        Unavailable: the connection broke, which ended the leadership.
    """
    try:
        async with await connect(database.dsn) as connection:
            while True:
                # The leader can take the lock again at any time, so this query also tests the
                # connection.
                leadership.is_leader = await _ask(connection, SQL["try_lead"])
                if has_webhook:
                    leadership.delivers = await _ask(connection, SQL["try_deliver"])
                if not leadership.is_leader and not leadership.delivers:
                    return
                await asyncio.sleep(PROBE_SECONDS)
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("the connection that holds the leadership broke") from error
    finally:
        leadership.is_leader = leadership.delivers = False


async def _ask(connection: AsyncConnection[TupleRow], query: Query) -> bool:
    async with asyncio.timeout(_ANSWER_SECONDS):
        row = await (await connection.execute(query.text.encode())).fetchone()
    return bool(row and row[0])
