"""Full-text search in plans, steps, results, runs and documents."""

from collections.abc import Sequence
from dataclasses import dataclass
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

_MAX_CANDIDATES: Final = 500
#: A search without the full-text index reads only this many rows per table, the newest ones.
_MAX_UNINDEXED_ROWS: Final = 5_000
#: Maximum number of characters that are read for an excerpt: `_MAX_BRIEF_LENGTH` of a question or
#: instructions, `_MAX_BODY_LENGTH` of a result or document.
_MAX_BRIEF_LENGTH: Final = 20_000
_MAX_BODY_LENGTH: Final = 100_000
_MAX_TITLE_LENGTH: Final = 120
_MAX_WORKFLOWS: Final = 500
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"

SETTINGS: Final = (
    "set local plan_cache_mode = force_generic_plan",
    # Keep PostgreSQL from scanning whole tables, which is fast only while the tables are small.
    "set local enable_seqscan = off",
)
KINDS: Final = ("plans", "runs", "steps", "results", "documents")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQuery:
    text: str
    #: Search text without its last word. None if the last word must match as a whole.
    before_last: str | None
    last: str | None
    id: str | None = None
    beginnings: str | None


def text_search_statements(query: TextQuery, most: int, *, indexed: bool) -> list[Statement | str]:
    """Return the statements of a search: settings, and one query per kind of row."""
    values: dict[str, Value] = {
        "text": query.text,
        "before_last": query.before_last,
        "last": query.last,
        "beginnings": query.beginnings,
        "indexed": indexed,
        "first": _FIRST_ID,
        "newest": _MAX_UNINDEXED_ROWS,
        "candidates": _MAX_CANDIDATES,
        "most": most,
        "id": query.id,
        "wide": _MAX_TITLE_LENGTH,
        "brief": _MAX_BRIEF_LENGTH,
        "long": _MAX_BODY_LENGTH,
    }
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


def workflows_statement() -> Statement:
    return SQL["workflows"](most=_MAX_WORKFLOWS)
