"""The pool, and the one kind of transaction there is: of one tenant, in two messages.

The first message opens the transaction, names the tenant, locks and loads; the last writes
everything and commits. Nothing goes back and forth in between.

The database's clock, between two looks at it.
"""

import time
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from waybook.store.driver.connection import DbConnection, Message, Results
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Query, Statement
from waybook.store.driver.wire import WireSettings


class Clock:
    """What time it is at the database, as far as can be told from the last answer.

    It lags by the way the answer took. Whoever relies on it has the database confirm it.
    """

    def __init__(self) -> None:
        self._told: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        """The database has just said what time it is."""
        self._told = now, time.monotonic()

    def now(self) -> datetime | None:
        """The time by now; none if the database has not said a word yet."""
        if self._told is None:
            return None
        then, heard = self._told
        return then + timedelta(seconds=time.monotonic() - heard)


BEGIN = Query("begin", "begin")()
BEGIN_READING = Query("begin_reading", "begin isolation level repeatable read read only")()
COMMIT = Query("commit", "commit")()


class Transaction:
    """A transaction of one tenant. It begins with the first message and ends with the last."""

    def __init__(self, line: DbConnection, opening: Message) -> None:
        self._line = line
        self._opening = opening

    async def send(self, *statements: Statement | str) -> Results:
        """Send statements in the transaction, opening it if this is the first message."""
        opening, self._opening = self._opening, ()
        return await self._line.send(opening, statements)

    async def commit(self, *statements: Statement | str) -> Results:
        """Send the last statements and commit, in one message."""
        return (await self.send(*statements, COMMIT))[:-1]


class TransactionScope:
    """A line lent for one transaction."""

    def __init__(self, pool: ConnectionPool, opening: Message, org_id: UUID | None) -> None:
        self._pool = pool
        self._org = None if org_id is None else org_id.int
        self._opening = opening
        self._line: DbConnection | None = None

    async def __aenter__(self) -> Transaction:
        self._line = await self._pool.acquire(self._org)
        return Transaction(self._line, self._opening)

    async def __aexit__(self, *_: object) -> None:
        line, self._line = self._line, None
        if line is not None:
            await self._pool.release(line, self._org)


class Database:
    def __init__(self, pool: ConnectionPool, *, role: str | None = None) -> None:
        """Use this pool; `role` is taken in each transaction."""
        self.pool = pool
        self._role = (Query("take_role", f"set local role {role}")(),) if role else ()
        #: For tests: the time it always is.
        self.frozen_now: datetime | None = None
        self.clock = Clock()

    @property
    def wire(self) -> WireSettings:
        """The settings of every connection."""
        return self.pool.wire

    def close(self) -> None:
        """Close the connections."""
        self.pool.close()

    def now(self) -> datetime | None:
        """The database's time, as far as it can be told without asking."""
        return self.frozen_now or self.clock.now()

    def org_transaction(self, org_id: UUID) -> TransactionScope:
        """A transaction in which only this org exists. Unless committed, nothing happened."""
        return TransactionScope(self.pool, self._opening(BEGIN, org_id), org_id)

    async def read_org(self, org_id: UUID, *statements: Statement | str) -> Results:
        """One snapshot of this org, in one message."""
        opening = self._opening(BEGIN_READING, org_id)
        async with TransactionScope(self.pool, opening, org_id) as tx:
            return await tx.commit(*statements)

    async def read_by_secret(self, secret_hash: bytes, *statements: Statement | str) -> Results:
        """One look, in one message, by whoever shows a secret that is known by this hash.

        Only the row that has the hash is seen, until a statement names the org it is in. Secrets
        take turns at the connections as orgs do, which are not known yet.
        """
        named = f"set local app.secret_hash = '{secret_hash.hex()}'"
        opening, turn = self._opened(BEGIN_READING, named), UUID(bytes=secret_hash[:16])
        async with TransactionScope(self.pool, opening, turn) as tx:
            return await tx.commit(*statements)

    async def read_by_slug(self, slug: str, *statements: Statement | str) -> Results:
        """One look, in one message, for the org of this slug: it begins with the directory."""
        opening = self._opened(BEGIN_READING, "set local app.sweep = 'on'")
        turn = UUID(bytes=sha256(slug.encode()).digest()[:16])
        async with TransactionScope(self.pool, opening, turn) as tx:
            return await tx.commit(*statements)

    async def list_org_ids(self, asked: Statement | str = "select org_id from org") -> list[UUID]:
        """The ids of all orgs, or of those that are asked for, to visit one by one."""
        (found,) = await self.read_directory(asked)
        return [row[0] for row in found]

    async def read_directory(self, *statements: Statement | str) -> Results:
        """A look at the directory of orgs, in one message; nothing of theirs is seen."""
        opening = (BEGIN_READING, *self._role, "set local app.sweep = 'on'")
        async with TransactionScope(self.pool, opening, None) as tx:
            return await tx.commit(*statements)

    async def read_global(self, *statements: Statement | str) -> Results:
        """Something that is no tenant's, in one message; no row of anybody is seen."""
        async with TransactionScope(self.pool, (BEGIN, *self._role), None) as tx:
            return await tx.commit(*statements)

    @property
    def dsn(self) -> str:
        """Where the database is, for a connection that is not of the pool."""
        return self.pool.dsn

    def _opening(self, begin: Statement, org_id: UUID) -> Message:
        return self._opened(begin, f"set local app.org_id = '{org_id}'")

    def _opened(self, begin: Statement, named: str) -> Message:
        opening = (begin, *self._role, named)
        if self.frozen_now is None:
            return opening
        return (*opening, f"set local app.now = '{self.frozen_now.isoformat()}'")
