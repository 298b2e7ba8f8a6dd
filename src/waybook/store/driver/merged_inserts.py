"""Merges the inserts of several calls into one statement per table, which is faster."""

from waybook.store.driver.connection import Message
from waybook.store.driver.queries import PREPARED_ROW_COUNT, Query, Statement

#: Marks a statement that was merged into another one and has no result of its own.
MERGED = -1


def merge_inserts(message: Message) -> tuple[list[Statement | str], list[int]]:
    """Merge the inserts of a message, and move them to its end.

    Return the new message, and for each old statement the index of its result.
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
