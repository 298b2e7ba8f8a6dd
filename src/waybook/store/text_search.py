"""Full-text search in plans, steps, results, runs and documents."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Row, Statement, Value, load

KINDS: Final = ("plans", "runs", "steps", "results", "documents")
SQL = load("text_search")

SETTINGS: Final = (
    "set local plan_cache_mode = force_generic_plan",
    # Keep PostgreSQL from scanning whole tables, which is fast only while the tables are small.
    "set local enable_seqscan = off",
)


#: Number of the newest rows of each table that are searched without the full-text index.
MAX_UNINDEXED_ROWS: Final = 2_500


class TextQuery(NamedTuple):
    text: str
    #: Search text without its last word. None if the last word must match as a whole.
    before_last: str | None
    last: str | None
    beginnings: str | None
    id: str | None = None


def text_search_statements(query: TextQuery, most: int, *, indexed: bool) -> list[Statement | str]:
    """Return the statements of a search: settings, and one query per kind of row."""
    values: dict[str, Value] = {
        **query._asdict(),
        "indexed": indexed,
        "most": most,
        "wide": 120,
        "scanned": MAX_UNINDEXED_ROWS,
    }
    return [
        *SETTINGS,
        SQL["plans"](**values),
        SQL["runs"](**values),
        SQL["steps"](**values),
        SQL["results"](**values),
        SQL["documents"](**values),
    ]


def read_hits(results: Results) -> Sequence[Sequence[Row]]:
    return results[len(SETTINGS) :]
