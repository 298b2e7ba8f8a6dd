"""Merges the inserts of several calls in one message into one statement per table.

A statement costs PostgreSQL more than another row. Each call inserts audit entries, a stored answer
and possibly a result, and no other statement depends on them. Queries with the placeholder
`merged_rows` are merged.
"""

from waybook.store.driver.connection import Message
from waybook.store.driver.queries import PREPARED_ROW_COUNT, Query, Statement

#: Marks a statement that was merged away, so it has no result.
MERGED = -1


def merge_inserts(message: Message) -> tuple[list[Statement | str], list[int]]:
    """Merge the inserts of a message, and move them to its end.

    A merged statement has at most `PREPARED_ROW_COUNT` rows, so that it can be prepared. Returns
    the new message, and the index of each old statement's result in it.
    """
    merged: list[Statement | str] = []
    places: list[int] = []
    inserts: dict[Query, list[Statement]] = {}
    for statement in message:
        query = None if isinstance(statement, str) else statement.form.merges
        if query is None or isinstance(statement, str):
            places.append(len(merged))
            merged.append(statement)
        else:
            places.append(MERGED)
            inserts.setdefault(query, []).append(statement)
    for query, statements in inserts.items():
        merged += _merge(query, statements)
    return merged, places


def _merge(query: Query, statements: list[Statement]) -> list[Statement]:
    batches: list[list[Statement]] = []
    rows = PREPARED_ROW_COUNT
    for statement in statements:
        rows += statement.form.rows
        if rows > PREPARED_ROW_COUNT:
            rows = statement.form.rows
            batches.append([])
        batches[-1].append(statement)
    return [query.merge(batch) for batch in batches]
