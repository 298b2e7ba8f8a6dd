"""Full-text search in plans, steps, results, runs and documents."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from waybook.json_values import Json
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement, Value, load


class TextHitRow(NamedTuple):
    id: str
    name: str
    place: str | None
    body: Json
    at: datetime
    plan_id: str | None
    step_id: str | None
    run_id: str | None
    job_id: str | None
    resource_id: str | None


class WorkflowNameRow(NamedTuple):
    slug: str
    name: str
    at: datetime


SQL = load(
    "text_search",
    plans=TextHitRow,
    steps=TextHitRow,
    results=TextHitRow,
    runs=TextHitRow,
    documents=TextHitRow,
    workflows=WorkflowNameRow,
)

SETTINGS: Final = (
    "set local plan_cache_mode = force_generic_plan",
    # Keep PostgreSQL from scanning whole tables, which is fast only while the tables are small.
    "set local enable_seqscan = off",
)
KINDS: Final = ("plans", "runs", "steps", "results", "documents")


class TextQuery(NamedTuple):
    text: str
    #: Search text without its last word. None if the last word must match as a whole.
    before_last: str | None
    last: str | None
    beginnings: str | None
    id: str | None = None


def text_search_statements(query: TextQuery, most: int, *, indexed: bool) -> list[Statement | str]:
    """Return the statements of a search: settings, and one query per kind of row."""
    values: dict[str, Value] = {**query._asdict(), "indexed": indexed, "most": most, "wide": 120}
    return [
        *SETTINGS,
        SQL["plans"](**values),
        SQL["runs"](**values),
        SQL["steps"](**values),
        SQL["results"](**values),
        SQL["documents"](**values),
    ]


def read_hits(results: Results) -> Sequence[Sequence[TextHitRow]]:
    return results[len(SETTINGS) :]
