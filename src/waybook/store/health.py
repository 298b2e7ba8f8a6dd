"""Questions an operator asks the database about itself, and trials that leave nothing behind."""

import psycopg

from waybook.errors import Unavailable
from waybook.store.database import Results, Tx
from waybook.store.sql import Statement, load

SQL = load("health")


async def attempt(tx: Tx, *statements: Statement | str) -> Results:
    """Send statements, and return their results.

    Raises:
        Unavailable: one of them failed; the message is the server's own.
    """
    try:
        return await tx.send(*statements)
    except psycopg.Error as fault:
        raise Unavailable(str(fault).strip().splitlines()[0]) from fault
