"""Passages set aside because indexing them broke the connection."""

from collections.abc import Sequence

from waybook.store.sql import Ids, Statement, load

SQL = load("quarantine")


def insert_statement(keys: Sequence[tuple[str, int]], *, model: str, backend: str) -> Statement:
    """Set these passages aside for a day."""
    parts = f"{{{','.join(str(part) for _, part in keys)}}}"
    subjects = Ids(subject for subject, _ in keys)
    return SQL["quarantine_passages"](subjects=subjects, parts=parts, model=model, backend=backend)


def count_statement() -> Statement:
    """Count the passages that are set aside."""
    return SQL["quarantined_passages"]()
