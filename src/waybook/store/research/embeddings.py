"""Queries for embeddings, and the encoding of vectors.

The pgvector index contains the vectors of all orgs. Extra dimensions make vectors of one org more
similar to each other, so that a search visits few vectors of other orgs.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from math import sqrt
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from waybook.research.embedding import DIMENSIONS, SCALE, Vector
from waybook.research.fusion import RankedPassage
from waybook.store.driver.queries import Ids, Rows, Statement, Value, first_value, load

_KEY_BYTES = 20
#: The numbers of a vector are stored as integers of 16 bits.
_VECTOR = Struct(f"<{DIMENSIONS}h")
RECORD_BYTES = _KEY_BYTES + _VECTOR.size
#: Number of embeddings read at once. They take about 2 MB.
PAGE_ROWS = 4_096
#: Up to this number of passages that match the filters, a search compares the query with each of
#: them.
FEW = 2_000

#: Amount by which the similarity of two vectors of the same org is increased.
ORG_WEIGHT = 0.3
_ORG_DIMENSIONS = 32


class _Key(NamedTuple):
    """Key of a passage. Python sorts keys in the same order as the database."""

    subject_id: str
    part: int


FIRST = _Key(str(UUID(int=0)), 0)


class Snapshot(NamedTuple):
    """State of the database when embeddings were read, for finding changes made afterwards."""

    #: Id of the oldest transaction that had not ended at the snapshot, so that its writes were not
    #: visible yet.
    running: int
    #: OID of the database. If it differs later, the database was replaced.
    database: int
    at: float
    #: Number of the org's erasures. If it is larger later, rows were erased since the snapshot.
    erasures: int = 0


SQL = load("research/embeddings")


_AnyRows: TypeAlias = Sequence[Sequence[Any]]


class Changes(NamedTuple):
    """Embeddings added and passages deleted since a snapshot."""

    added: bytes
    deleted: bytes
    #: False if there are so many changes that all embeddings must be read again.
    complete: bool
    snapshot: Snapshot

    def __bool__(self) -> bool:
        return bool(self.added or self.deleted or not self.complete)


def insert_statement(rows: Iterable[tuple[str, int, Vector]], *, model: str) -> Statement:
    written = [
        (subject, part, model, _VECTOR.pack(*[round(number * SCALE) for number in vector]))
        for subject, part, vector in rows
    ]
    return SQL["insert_embeddings"](rows=Rows(written))


def page_statements(model: str, after: _Key) -> list[Statement]:
    page = SQL["page"](model=model, **after._asdict(), most=PAGE_ROWS)
    return [SQL["snapshot"](), page]


def read_page(states: _AnyRows, rows: _AnyRows) -> tuple[bytes, Snapshot]:
    ((blob, erasures),) = rows
    return blob or b"", Snapshot._make((*states[0], erasures))


def fitting_page_statement(model: str, after: _Key, **filters: Value) -> Statement:
    return SQL["fitting_page"](model=model, **after._asdict(), most=PAGE_ROWS, **filters)


def changes_statements(model: str, since: int, *, is_cluster: bool) -> list[Statement]:
    changes = SQL["changes"](model=model, since=since, is_cluster=is_cluster, most=PAGE_ROWS + 1)
    return [SQL["snapshot"](), changes]


def read_changes(states: _AnyRows, rows: _AnyRows) -> Changes:
    ((additions, added, deletions, deleted, erasures),) = rows
    complete = max(additions, deletions) <= PAGE_ROWS
    return Changes(added or b"", deleted or b"", complete, Snapshot._make((*states[0], erasures)))


def few_fitting_statement(model: str, **filters: Value) -> Statement:
    return SQL["few_fitting"](model=model, few=FEW, **filters)


def read_few_fitting(rows: _AnyRows) -> bytes | None:
    ((passages, blob),) = rows
    return None if passages > FEW else blob or b""


def among_statement(model: str, plan_id: str, newest: int, **filters: Value) -> Statement:
    return SQL["among"](model=model, plan_id=plan_id, newest=newest, **filters)


def read_records(rows: Sequence[Sequence[bytes | None]]) -> bytes:
    return first_value(rows) or b""


def fitting_statement(passages: Sequence[RankedPassage], most: int, **filters: Value) -> Statement:
    keys = [(passage.subject_id, passage.part) for passage in passages]
    return SQL["fitting"](**_key_arrays(keys), most=most, **filters)


def _key_arrays(keys: Sequence[tuple[str, int]]) -> dict[str, Value]:
    parts = ",".join([str(part) for _, part in keys])
    return {"subjects": Ids(subject for subject, _ in keys), "parts": f"{{{parts}}}"}


def last_key(blob: bytes) -> _Key:
    record = blob[-RECORD_BYTES:]
    return _Key(str(UUID(bytes=record[:16])), int.from_bytes(record[16:_KEY_BYTES]))


def quarantine_statement(keys: Sequence[tuple[str, int]], *, model: str, backend: str) -> Statement:
    """Leave the passages out of the index for a day, because storing them broke the connection."""
    return SQL["quarantine_passages"](**_key_arrays(keys), model=model, backend=backend)


def encode_vector(vector: Vector, org_id: UUID) -> str:
    """Return a vector, with the extra dimensions of its org, as text for pgvector.

    >>> encode_vector((0.6, -0.8), UUID(int=7))[:26]
    '[0.60000,-0.80000,0.09682,'
    """
    return "[" + ",".join([f"{number:.5f}" for number in (*vector, *_home(org_id))]) + "]"


@lru_cache(4096)
def _home(org_id: UUID) -> Vector:
    """Return the extra dimensions of an org: pseudorandom numbers that its id determines."""
    length = sqrt(ORG_WEIGHT / _ORG_DIMENSIONS)
    chance = int.from_bytes(sha256(org_id.bytes).digest())
    return tuple(length if chance >> bit & 1 else -length for bit in range(_ORG_DIMENSIONS))
