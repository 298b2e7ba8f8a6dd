"""The post between processes: what one has changed, the others hear of.

Sent by NOTIFY, many at a time and never in the transaction that changed something: a transaction
that notifies takes a lock on all of PostgreSQL as it commits. Heard by LISTEN on a connection of
its own. Since a pooler in between makes LISTEN deaf without a word, and whoever is killed after a
commit tells nobody, the audit is looked at as well, every few seconds.
"""

import asyncio
import time
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.core.events import ChangeEvent, decode_batch, encode_batches
from waybook.errors import Unavailable
from waybook.store.driver.addresses import bounded_dsn
from waybook.store.driver.bus import Bus
from waybook.store.driver.database import Database
from waybook.store.driver.queries import load

SQL = load("driver/pg_notify")
#: The channel is that of `tell` in `post.sql`; this cannot be prepared, so it stands here.
LISTEN = b"listen waybook_news"

#: A change is numbered when its plan is locked, and seen when it is committed: at most so long
#: after. A look goes back that much further than to the last one.
OVERLAP_SECONDS = 15.0
#: How often the connection that listens is probed while nothing arrives, and how long a probe may
#: take: a connection that the network swallowed looks like one on which nothing happens.
PROBE_SECONDS = 30.0
PROBE_DEADLINE_SECONDS = 5.0
#: Changes that one look may find.
MAX_POLLED_CHANGES = 1_000


async def send_pending(database: Database, bus: Bus) -> int:
    """Send what waits to the other processes; returns in how many letters.

    Raises:
        Unavailable: it could not be sent; the others find it by looking.
    """
    outgoing = bus.take_outgoing()
    letters = [
        SQL["notify_change"](payload=payload)
        for org_id, news in outgoing.items()
        for payload in encode_batches(bus.sender, org_id, news)
    ]
    if letters:
        await database.read_global("set local synchronous_commit = off", *letters)
    return len(letters)


async def listen(database: Database, bus: Bus) -> None:
    """Pass on what other processes tell, until the connection breaks or we are cancelled.

    Ends at once where a pooler stands in between: it would be deaf, and the server's connection,
    which listened for us, would tell whoever has it next.

    Raises:
        Unavailable: it broke.
    """
    try:
        async with await AsyncConnection.connect(
            bounded_dsn(database.dsn), autocommit=True, prepare_threshold=None
        ) as connection:
            async with asyncio.timeout(PROBE_DEADLINE_SECONDS):
                if await _is_pooled(connection):
                    database.wire.assume_pooler()
                    return
                await connection.execute(LISTEN)
            while True:
                async for heard in connection.notifies(timeout=PROBE_SECONDS):
                    receive(bus, heard.payload)
                async with asyncio.timeout(PROBE_DEADLINE_SECONDS):
                    await _is_pooled(connection)
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("the connection that listens for news broke") from error


async def _is_pooled(connection: AsyncConnection[TupleRow]) -> bool:
    found = await (await connection.execute(SQL["process"].text.encode())).fetchone()
    return found is None or found[0] != connection.info.backend_pid


def receive(bus: Bus, payload: str) -> None:
    """Pass on what a letter says, unless it is our own or nobody's."""
    packet = decode_batch(payload)
    if packet is None or packet.sender == bus.sender:
        return
    for news in packet.news:
        bus.receive(packet.org_id, news)


class ChangePoller:
    """Who looks for changes that nobody told of, in the orgs somebody waits for."""

    def __init__(self, most: int = MAX_POLLED_CHANGES) -> None:
        """One look finds so many changes; more are as good as all."""
        self._most = most
        self._looked: dict[UUID, float] = {}

    async def poll(self, database: Database, bus: Bus) -> None:
        """Look once.

        Raises:
            Unavailable: not now.
        """
        orgs = bus.subscribed_orgs()
        self._looked = {org: at for org, at in self._looked.items() if org in orgs}
        for org_id in orgs:
            begun = time.monotonic()
            seconds = begun - self._looked.get(org_id, begun) + OVERLAP_SECONDS
            asked = SQL["changed"](seconds=seconds, most=self._most + 1)
            (found,) = await database.read_org(org_id, asked)
            self._looked[org_id] = begun
            if len(found) > self._most:
                bus.invalidate(org_id)
            else:
                for kind, subject_id, version in found:
                    # What changed is not known, so neither is whether it stands otherwise.
                    bus.receive(org_id, ChangeEvent(kind, subject_id, version, list_changed=True))
