"""Vectors of passages, where a server of the user's own has pgvector.

The index of vectors knows no orgs: asked for the nearest of a small org among many, it would walk
through everybody's. So the org stands in the vector itself, as a direction of its own that counts
a little beside the meaning: those of the same org are nearer by `ORG_WEIGHT`, those of others are
not. Within an org the order by meaning stays as it is.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from math import sqrt
from uuid import UUID

from waybook.research.embedding import Vector
from waybook.store.sql import Rows, Statement, Value, load

SQL = load("vectors")

#: How much nearer passages of the same org are. Enough to pass by those of others that mean the
#: same; not so much that the index falls apart into islands.
ORG_WEIGHT = 0.3
ORG_DIMENSIONS = 32

#: In one transaction, before vectors are searched. Without the first line the index hands out a
#: few rows of whatever org and stops; with it, it goes on until enough are ours. A strict order
#: would drop what comes a little late; ours are sorted afterwards, so nothing need be dropped.
#: The last keeps the planner from sorting what the index gives in order.
SETTINGS = (
    "set local hnsw.iterative_scan = relaxed_order",
    "set local hnsw.ef_search = 200",
    "set local hnsw.max_scan_tuples = 40000",
    "set local hnsw.scan_mem_multiplier = 4",
    "set local enable_sort = off",
)
#: Up to so many passages are compared one by one, which misses none.
MAX_EXACT_SCAN = 2_000


def insert_statement(
    rows: Iterable[tuple[str, int, Vector]], *, model: str, org_id: UUID
) -> Statement:
    """Keep the vectors of passages of this org."""
    told = [(subject, part, model, encode_vector(vector, org_id)) for subject, part, vector in rows]
    return SQL["insert_vectors"](rows=Rows(told))


def nearest_statement(**values: Value) -> Statement:
    """The nearest passages of the org."""
    return SQL["nearest_vectors"](few=MAX_EXACT_SCAN, **values)


def nearest_in_plan_statement(**values: Value) -> Statement:
    """The nearest passages of a plan."""
    return SQL["nearest_vectors_in_plan"](**values)


def without_vectors_statement(
    model: str, backend: str, since: datetime | None, most: int
) -> Statement:
    """Passages, all or those since then, that have no vector of this model yet."""
    return SQL["without_vectors"](model=model, backend=backend, since=since, most=most)


def encode_vector(vector: Vector, org_id: UUID) -> str:
    """A vector of this org as pgvector reads it; it keeps three or four digits of each number.

    >>> encode_vector((0.6, -0.8), UUID(int=7))[:26]
    '[0.60000,-0.80000,0.09682,'
    """
    return "[" + ",".join([f"{number:.5f}" for number in (*vector, *_home(org_id))]) + "]"


@lru_cache(4096)
def _home(org_id: UUID) -> Vector:
    """The direction of an org: by chance, and so nearly at a right angle to any other's."""
    length = sqrt(ORG_WEIGHT / ORG_DIMENSIONS)
    chance = int.from_bytes(sha256(org_id.bytes).digest())
    return tuple(length if chance >> bit & 1 else -length for bit in range(ORG_DIMENSIONS))
