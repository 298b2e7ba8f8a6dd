"""Counter of messages to the database; a message is one or more statements sent together."""

import pytest

from waybook.store.driver.connection import DbConnection, Message, Results


def count_messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of SQL statements of each message sent from now on."""
    counts: list[int] = []
    send = DbConnection.send

    async def counting(line: DbConnection, opening: Message, statements: Message) -> Results:
        counts.append(len(statements))
        return await send(line, opening, statements)

    monkeypatch.setattr(DbConnection, "send", counting)
    return counts
