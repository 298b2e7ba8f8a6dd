"""Counter of the messages that the application sends to the database."""

import pytest

from waybook.store.driver.connection import DbConnection, Message, Results


def count_messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later message appends its number of SQL statements."""
    counts: list[int] = []
    send = DbConnection.send

    async def counting(line: DbConnection, opening: Message, statements: Message) -> Results:
        counts.append(len(statements))
        return await send(line, opening, statements)

    monkeypatch.setattr(DbConnection, "send", counting)
    return counts
