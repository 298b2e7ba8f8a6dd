"""Sends change events to other processes with NOTIFY, and receives them with LISTEN or by polling.

Polling finds changes whose notification was lost, for example behind a connection pooler.
"""

import asyncio
import time
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.core.events import ChangeEvent, decode_batch, encode_batches
from waybook.errors import Unavailable
from waybook.store.driver.addresses import connect
from waybook.store.driver.bus import Bus
from waybook.store.driver.database import Database
from waybook.store.driver.queries import load

SQL = load("driver/pg_notify")
#: The channel `waybook_news` must be the same as in `pg_notify.sql`.
_LISTEN = b"listen waybook_news"

#: Each poll also reads the changes of this many seconds before the last poll, because a change may
#: be committed later than its recorded time.
_OVERLAP_SECONDS = 15.0
#: Seconds between two checks whether the listening connection still works.
_PROBE_SECONDS = 30.0
_PROBE_DEADLINE_SECONDS = 5.0
_MAX_POLLED_CHANGES = 1_000


async def send_pending(database: Database, bus: Bus) -> int:
    """Send the queued events to other processes, and return the number of notifications.

    Raises:
        Unavailable: the events could not be sent; the other processes find the changes by polling.
    """
    outgoing = bus.take_outgoing()
    letters = [
        SQL["notify_change"](payload=payload)
        for org_id, events in outgoing.items()
        for payload in encode_batches(bus.sender, org_id, events)
    ]
    if letters:
        await database.read_global("set local synchronous_commit = off", *letters)
    return len(letters)


async def listen(database: Database, bus: Bus) -> None:
    """Deliver events from other processes until the connection breaks.

    Behind a connection pooler, return immediately, because LISTEN receives nothing there.

    Raises:
        Unavailable: the connection broke.
    """
    try:
        async with await connect(database.dsn, autocommit=True) as connection:
            async with asyncio.timeout(_PROBE_DEADLINE_SECONDS):
                if await _is_pooled(connection):
                    database.wire.assume_pooler()
                    return
                await connection.execute(_LISTEN)
            while True:
                async for heard in connection.notifies(timeout=_PROBE_SECONDS):
                    receive(bus, heard.payload)
                async with asyncio.timeout(_PROBE_DEADLINE_SECONDS):
                    await _is_pooled(connection)
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("the connection that receives change events broke") from error


async def _is_pooled(connection: AsyncConnection[TupleRow]) -> bool:
    row = await (await connection.execute(SQL["process"].text.encode())).fetchone()
    return row is None or row[0] != connection.info.backend_pid


def receive(bus: Bus, payload: str) -> None:
    batch = decode_batch(payload)
    if batch is None or batch[0] == bus.sender:
        return
    _, org_id, events = batch
    for event in events:
        bus.receive(org_id, event)


class ChangePoller:
    def __init__(self, most: int = _MAX_POLLED_CHANGES) -> None:
        self._most = most
        self._looked: dict[UUID, float] = {}

    async def poll(self, database: Database, bus: Bus) -> None:
        """Read the new changes of every org that has subscribers.

        If there are too many changes, tell the subscribers that any plan or run may have changed.
        """
        orgs = bus.subscribed_orgs()
        self._looked = {org: at for org, at in self._looked.items() if org in orgs}
        for org_id in orgs:
            begun = time.monotonic()
            seconds = begun - self._looked.get(org_id, begun) + _OVERLAP_SECONDS
            statement = SQL["changed"](seconds=seconds, most=self._most + 1)
            (rows,) = await database.read_org(org_id, statement)
            self._looked[org_id] = begun
            if len(rows) > self._most:
                bus.invalidate(org_id)
            else:
                for kind, subject_id, version in rows:
                    # The audit does not record whether a change affects lists, so assume that it
                    # does.
                    bus.receive(org_id, ChangeEvent(kind, subject_id, version, list_changed=True))
