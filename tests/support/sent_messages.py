"""Counters of messages to the database, and of the blocks that the server reads for them."""

import pytest

from waybook.app.request.request_context import RequestContext
from waybook.store.driver.connection import DbConnection, Message, Results
from waybook.store.driver.queries import Statement

#: Blocks of all tables, indexes and large values that this connection has read so far.
_BLOCKS = "select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0) from pg_class"


def count_messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of SQL statements of each message sent from now on."""
    counts: list[int] = []
    send = DbConnection.send

    async def counting(line: DbConnection, opening: Message, statements: Message) -> Results:
        counts.append(len(statements))
        return await send(line, opening, statements)

    monkeypatch.setattr(DbConnection, "send", counting)
    return counts


def count_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of blocks that each read from now on needs."""
    counts: list[int] = []
    read = RequestContext.read

    async def counting(ctx: RequestContext, *statements: Statement | str) -> Results:
        before, *results, after = await read(ctx, _BLOCKS, *statements, _BLOCKS)
        counts.append(int(after[0][0]) - int(before[0][0]))
        return results

    monkeypatch.setattr(RequestContext, "read", counting)
    return counts
