"""Questions an operator asks the database about itself, and trials that leave nothing behind."""

import psycopg

from waybook.errors import Unavailable
from waybook.store.database import Results, Transaction
from waybook.store.sql import Statement, load

SQL = load("health")


async def attempt(tx: Transaction, *statements: Statement | str) -> Results:
    """Send statements, and return their results.

    Raises:
        Unavailable: one of them failed; the message is the server's own.
    """
    try:
        return await tx.send(*statements)
    except psycopg.Error as error:
        raise Unavailable(str(error).strip().splitlines()[0]) from error
