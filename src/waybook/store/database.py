"""The pool, and the one kind of transaction there is: of one tenant, in two messages.

The first message opens the transaction, names the tenant, locks and loads; the last writes
everything and commits. Nothing goes back and forth in between.
"""

import asyncio
from datetime import datetime
from hashlib import sha256
from typing import TypeAlias
from uuid import UUID

from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from waybook.errors import Unavailable
from waybook.store.clock import Clock
from waybook.store.line import (
    LOCK_TIMEOUT,
    Connection,
    Line,
    Message,
    Outdated,
    Results,
    Taken,
    Wire,
)
from waybook.store.sql import Query, Statement
from waybook.store.turns import Turns

__all__ = [
    "LOCK_TIMEOUT",
    "Database",
    "Lent",
    "Line",
    "Outdated",
    "Results",
    "Taken",
    "Tx",
    "Wire",
]

Pool: TypeAlias = AsyncConnectionPool[Connection]
#: Whose call it is, as a number, which is looked up fast; none is the server's own.
Org: TypeAlias = int | None

BEGIN = Query("begin", "begin")()
BEGIN_READING = Query("begin_reading", "begin isolation level repeatable read read only")()
COMMIT = Query("commit", "commit")()


class Tx:
    """A transaction of one tenant. It begins with the first message and ends with the last."""

    def __init__(self, line: Line, wire: Wire, opening: Message) -> None:
        self._line = line
        self._wire = wire
        self._opening = opening

    async def send(self, *statements: Statement | str) -> Results:
        """Send statements in the transaction, opening it if this is the first message."""
        opening, self._opening = self._opening, ()
        return await self._line.send(self._wire, opening, statements)

    async def commit(self, *statements: Statement | str) -> Results:
        """Send the last statements and commit, in one message."""
        return (await self.send(*statements, COMMIT))[:-1]


class Lines:
    """The connections in use, kept at hand: asking the pool for one costs as much as a rule.

    A connection is fetched from the pool when none is free, and goes back when it broke, for the
    pool to replace it, or at the end. Whoever finds none waits, and orgs take turns.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._free: list[Line] = []
        self._fetched = 0
        self._turns: Turns[asyncio.Future[Line | None]] = Turns(pool.max_size)

    async def take(self, org: Org) -> Line:
        """A line that is nobody else's, for a call of this org.

        Raises:
            PoolTimeout, PoolClosed: there is none to be had.
            Busy: too many of this org wait already.
        """
        self._turns.meet(org)
        while True:
            line = await self._next(org)
            if line is not None and line.is_clean():
                return line
            self._turns.give(org)
            if line is not None:
                await self._give_up(line)

    async def give(self, line: Line, org: Org) -> None:
        """Take a line back clean, whatever happened to it."""
        try:
            if not line.is_clean():
                await line.clean()
        finally:
            self._turns.give(org)
            if line.is_clean():
                self._pass_on(line)
            else:
                await self._give_up(line)

    async def close(self) -> None:
        """Give everything back to the pool."""
        while self._free:
            await self._give_up(self._free.pop())

    async def _next(self, org: Org) -> Line | None:
        """A line, which the org holds then; or none, and it is to look again."""
        if not self._turns.may_take(org):
            return await self._wait(org)
        if self._free:
            self._turns.take(org)
            return self._free.pop()
        if self._fetched < self._pool.max_size:
            self._turns.take(org)
            return await self._fetch(org)
        return await self._wait(org)

    async def _fetch(self, org: Org) -> Line:
        self._fetched += 1
        try:
            return Line(await self._pool.getconn())
        except BaseException:
            self._fetched -= 1
            self._turns.give(org)
            self._pass_on(None)
            raise

    async def _wait(self, org: Org) -> Line | None:
        """Wait for a line somebody gives back, or for the chance to fetch one."""
        turn: asyncio.Future[Line | None] = asyncio.get_running_loop().create_future()
        self._turns.wait(org, turn)
        try:
            async with asyncio.timeout(self._pool.timeout):
                return await turn
        except BaseException as fault:
            self._turns.leave(org, turn)
            if turn.done() and not turn.cancelled():
                self._turns.give(org)
                self._pass_on(turn.result())
            turn.cancel()
            if isinstance(fault, TimeoutError):
                raise PoolTimeout from fault
            raise

    def _pass_on(self, line: Line | None) -> None:
        """Hand a line, or the chance to fetch one, to whoever is next."""
        while served := self._turns.serve():
            org, turn = served
            if not turn.done():
                turn.set_result(line)
                return
            self._turns.give(org)  # they have just gone away
        if line is not None:
            self._free.append(line)

    async def _give_up(self, line: Line) -> None:
        self._fetched -= 1
        try:
            await self._pool.putconn(await line.let_go())
        finally:
            self._pass_on(None)


class Lent:
    """A line lent for one transaction."""

    def __init__(self, lines: Lines, wire: Wire, opening: Message, org_id: UUID | None) -> None:
        self._lines = lines
        self._org = None if org_id is None else org_id.int
        self._wire = wire
        self._opening = opening
        self._line: Line | None = None

    async def __aenter__(self) -> Tx:
        try:
            self._line = await self._lines.take(self._org)
        except (PoolTimeout, PoolClosed) as fault:
            raise Unavailable("the database cannot be reached right now; try again") from fault
        return Tx(self._line, self._wire, self._opening)

    async def __aexit__(self, *_: object) -> None:
        line, self._line = self._line, None
        if line is not None:
            await self._lines.give(line, self._org)


class Database:
    def __init__(
        self, pool: Pool, *, role: str | None = None, lock_timeout: str = LOCK_TIMEOUT
    ) -> None:
        """Use this pool; `role` is taken in each transaction."""
        self.pool = pool
        self.wire = Wire(lock_timeout)
        self._lines = Lines(pool)
        self._role = (Query("take_role", f"set local role {role}")(),) if role else ()
        #: For tests: the time it always is.
        self.frozen_now: datetime | None = None
        self.clock = Clock()

    async def close(self) -> None:
        """Give the connections back to the pool."""
        await self._lines.close()

    def now(self) -> datetime | None:
        """The database's time, as far as it can be told without asking."""
        return self.frozen_now or self.clock.now()

    def tenant(self, org_id: UUID) -> Lent:
        """A transaction in which only this org exists. Unless committed, nothing happened."""
        return Lent(self._lines, self.wire, self._opening(BEGIN, org_id), org_id)

    async def read(self, org_id: UUID, *statements: Statement | str) -> Results:
        """One snapshot of this org, in one message."""
        opening = self._opening(BEGIN_READING, org_id)
        async with Lent(self._lines, self.wire, opening, org_id) as tx:
            return await tx.commit(*statements)

    async def bearing(self, secret_hash: bytes, *statements: Statement | str) -> Results:
        """One look, in one message, by whoever shows a secret that is known by this hash.

        Only the row that has the hash is seen, until a statement names the org it is in. Secrets
        take turns at the connections as orgs do, which are not known yet.
        """
        named = f"set local app.secret_hash = '{secret_hash.hex()}'"
        opening, turn = self._opened(BEGIN_READING, named), UUID(bytes=secret_hash[:16])
        async with Lent(self._lines, self.wire, opening, turn) as tx:
            return await tx.commit(*statements)

    async def finding(self, slug: str, *statements: Statement | str) -> Results:
        """One look, in one message, for the org of this slug: it begins with the directory."""
        opening = self._opened(BEGIN_READING, "set local app.sweep = 'on'")
        turn = UUID(bytes=sha256(slug.encode()).digest()[:16])
        async with Lent(self._lines, self.wire, opening, turn) as tx:
            return await tx.commit(*statements)

    async def directory(self, asked: Statement | str = "select org_id from org") -> list[UUID]:
        """The ids of all orgs, or of those that are asked for, to visit one by one."""
        (found,) = await self.overlooking(asked)
        return [row[0] for row in found]

    async def overlooking(self, *statements: Statement | str) -> Results:
        """A look at the directory of orgs, in one message; nothing of theirs is seen."""
        opening = (BEGIN_READING, *self._role, "set local app.sweep = 'on'")
        async with Lent(self._lines, self.wire, opening, None) as tx:
            return await tx.commit(*statements)

    async def beside(self, *statements: Statement | str) -> Results:
        """Something that is no tenant's, in one message; no row of anybody is seen."""
        async with Lent(self._lines, self.wire, (BEGIN, *self._role), None) as tx:
            return await tx.commit(*statements)

    @property
    def address(self) -> str:
        """Where the database is, for a connection that is not of the pool."""
        return str(self.pool.conninfo)

    def _opening(self, begin: Statement, org_id: UUID) -> Message:
        return self._opened(begin, f"set local app.org_id = '{org_id}'")

    def _opened(self, begin: Statement, named: str) -> Message:
        opening = (begin, *self._role, named)
        if self.frozen_now is None:
            return opening
        return (*opening, f"set local app.now = '{self.frozen_now.isoformat()}'")
