"""Queries for quantized embeddings of passages, and for quarantined passages.

A packed row is a key of twenty bytes (subject, part) followed by 256 codes; `research.ranking`
reads it. Passages are quarantined when indexing them broke the connection.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.research.embedding import DIMENSIONS, Vector
from waybook.research.fusion import RankedPassage
from waybook.research.ranking import quantize
from waybook.store.driver.queries import Ids, Rows, Statement, Value, load

SQL = load("research/embeddings")

KEY_BYTES = 20
RECORD_BYTES = KEY_BYTES + DIMENSIONS
#: Embeddings in one message: about two megabytes.
PAGE_ROWS = 8_192
#: Up to this many passages that match a search's filters are fetched and ranked separately.
FEW = 2_000


class Key(NamedTuple):
    """Key of a passage, in the sort order of the database."""

    subject_id: str
    part: int


#: Sorts before every key.
FIRST = Key(str(UUID(int=0)), 0)


class Snapshot(NamedTuple):
    """State of the database at the time of a read."""

    #: Oldest transaction that was still running, whose writes were not visible yet.
    running: int
    #: OID of the database, to detect another database of the same name.
    database: int
    #: Seconds since the epoch, by the database clock.
    at: float
    #: Number of erasures of the org so far: an erasure leaves no rows in the table of deletions.
    erasures: int = 0


class Changes(NamedTuple):
    """Packed embeddings added, and packed keys of passages deleted."""

    added: bytes
    deleted: bytes
    #: Whether these are all changes; if not, everything has to be read again.
    complete: bool
    snapshot: Snapshot

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.added or self.deleted or not self.complete)


def insert_statement(rows: Iterable[tuple[str, int, Vector]], *, model: str) -> Statement:
    """Insert the embeddings of passages."""
    written = [(subject, part, model, quantize(vector)) for subject, part, vector in rows]
    return SQL["insert_embeddings"](rows=Rows(written))


def page_statement(model: str, after: Key) -> Statement:
    """Select the next embeddings after a key."""
    return SQL["page"](model=model, **after._asdict(), most=PAGE_ROWS)


def read_page(rows: Sequence[Sequence[Any]]) -> tuple[bytes, Snapshot]:
    """Return the packed embeddings of a page, and the snapshot they were read at."""
    ((packed, *snapshot),) = rows
    return packed or b"", Snapshot(*snapshot)


def fitting_page_statement(model: str, after: Key, **filters: Value) -> Statement:
    """Select the next embeddings after a key that match a search's filters."""
    return SQL["fitting_page"](model=model, **after._asdict(), most=PAGE_ROWS, **filters)


def changes_statement(model: str, since: int) -> Statement:
    """Select the changes since the oldest transaction of an earlier snapshot."""
    return SQL["changes"](model=model, since=since, most=PAGE_ROWS + 1)


def read_changes(rows: Sequence[Sequence[Any]]) -> Changes:
    ((additions, added, deletions, deleted, *snapshot),) = rows
    complete = max(additions, deletions) <= PAGE_ROWS
    return Changes(added or b"", deleted or b"", complete, Snapshot(*snapshot))


def few_fitting_statement(model: str, **filters: Value) -> Statement:
    """Select the embeddings that match a search's filters, if there are few."""
    return SQL["few_fitting"](model=model, few=FEW, **filters)


def read_few_fitting(rows: Sequence[Sequence[Any]]) -> bytes | None:
    """Return the packed embeddings, or None if there are too many passages."""
    ((count, packed),) = rows
    return None if count > FEW else packed or b""


def among_statement(model: str, plan_id: str, newest: int, **filters: Value) -> Statement:
    """Select the embeddings of a plan and of its sources."""
    return SQL["among"](model=model, plan_id=plan_id, newest=newest, **filters)


def read_packed(rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the packed embeddings of `among_statement` or `fitting_page_statement`."""
    ((packed,),) = rows
    return packed or b""


def which_fit_statement(passages: Sequence[RankedPassage], **filters: Value) -> Statement:
    """Select which of these passages match a search's filters."""
    parts = f"{{{','.join(str(passage.part) for passage in passages)}}}"
    return SQL["which_fit"](
        subjects=Ids(passage.subject_id for passage in passages), parts=parts, **filters
    )


def read_which_fit(
    rows: Iterable[Sequence[Any]], passages: Sequence[RankedPassage]
) -> list[RankedPassage]:
    """Return the matching passages in their original order."""
    return [passages[place - 1] for place in sorted(row[0] for row in rows)]


def last_key(packed: bytes) -> Key:
    """Return the key of the last packed embedding."""
    record = packed[-RECORD_BYTES:]
    return Key(str(UUID(bytes=record[:16])), int.from_bytes(record[16:KEY_BYTES]))


def without_embeddings_statement(
    model: str, backend: str, since: datetime | None, most: int
) -> Statement:
    """Select passages, all or since a time, that have no embedding of this model."""
    return SQL["without_embeddings"](model=model, backend=backend, since=since, most=most)


def quarantine_statement(keys: Sequence[tuple[str, int]], *, model: str, backend: str) -> Statement:
    """Quarantine these passages for a day."""
    parts = f"{{{','.join(str(part) for _, part in keys)}}}"
    subjects = Ids(subject for subject, _ in keys)
    return SQL["quarantine_passages"](subjects=subjects, parts=parts, model=model, backend=backend)


def count_statement() -> Statement:
    """Count the quarantined passages."""
    return SQL["quarantined_passages"]()
