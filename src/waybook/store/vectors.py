"""Vectors of passages, where the server has pgvector."""

from collections.abc import Iterable

from waybook.research.embedding import Vector
from waybook.store.sql import Rows, Statement, Value, load

SQL = load("vectors")

#: In one transaction, before vectors are searched. Without the first line the index hands out
#: forty rows of whatever org and stops; with it, it goes on until enough are ours, in true order.
#: The last keeps the planner from sorting what the index gives in order.
SETTINGS = (
    "set local hnsw.iterative_scan = strict_order",
    "set local hnsw.ef_search = 100",
    "set local hnsw.max_scan_tuples = 40000",
    "set local hnsw.scan_mem_multiplier = 4",
    "set local enable_sort = off",
)
#: Up to so many passages are compared one by one, which misses none.
FEW = 5_000


def insert_statement(rows: Iterable[tuple[str, int, Vector]], model: str) -> Statement:
    """Keep the vectors of passages."""
    told = [(subject, part, model, written(vector)) for subject, part, vector in rows]
    return SQL["insert_vectors"](rows=Rows(told))


def by_meaning_statement(**values: Value) -> Statement:
    """The nearest passages of the org."""
    return SQL["by_meaning"](few=FEW, **values)


def by_meaning_among_statement(**values: Value) -> Statement:
    """The nearest passages of a plan."""
    return SQL["by_meaning_among"](**values)


def without_vectors_statement(model: str, most: int) -> Statement:
    """Passages that have no vector of this model yet."""
    return SQL["without_vectors"](model=model, most=most)


def written(vector: Vector) -> str:
    """A vector as pgvector reads it; it keeps three or four digits of each number.

    >>> written((0.6, -0.8))
    '[0.60000,-0.80000]'
    """
    return "[" + ",".join([f"{number:.5f}" for number in vector]) + "]"
