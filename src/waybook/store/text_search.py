"""Full-text search in plans, steps, results, runs and documents.

Research has its own search, in `store.research.search`. The queries always use generic query plans:
PostgreSQL then uses the full-text index, however frequent the terms are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from waybook.json_values import Json
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement, Value, load


class TextHitRow(NamedTuple):
    """A row found by a search, with the searched text and the ids that lead to its page."""

    id: str
    name: str
    #: Name of the plan or run that contains the row. None if the row is itself a plan or run.
    place: str | None
    body: Json
    at: datetime
    plan_id: str | None
    step_id: str | None
    run_id: str | None
    job_id: str | None
    resource_id: str | None


class WorkflowNameRow(NamedTuple):
    """A workflow with its name and the time at which its latest version was stored."""

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

#: Maximum number of matching rows that a query ranks.
MAX_CANDIDATES: Final = 500
#: Number of newest rows of each table that are searched without the full-text index.
MAX_UNINDEXED_ROWS: Final = 5_000
#: Maximum length of the text read for an excerpt: of a question or instructions, and of a result or
#: document. Only the first 100,000 characters are indexed.
MAX_BRIEF_LENGTH: Final = 20_000
MAX_BODY_LENGTH: Final = 100_000
#: A step without a title is shown with this many characters of its instructions.
MAX_TITLE_LENGTH: Final = 120
#: Maximum number of workflows whose names are searched.
MAX_WORKFLOWS: Final = 500
FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"

#: PostgreSQL settings applied in a transaction before a search.
SETTINGS: Final = (
    "set local plan_cache_mode = force_generic_plan",
    # Keep PostgreSQL from scanning whole tables, which is cheap only while they are small.
    "set local enable_seqscan = off",
)
KINDS: Final = ("plans", "runs", "steps", "results", "documents")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQuery:
    """A search text, and the parts of it that match beginnings of words."""

    text: str
    #: Search text without its last word. None if the last word must match as a whole word.
    before_last: str | None
    #: Last word of the search text as a prefix, in `tsquery` syntax.
    last: str | None
    #: Full id if the search text is an id.
    id: str | None = None
    #: All words as prefixes, in `tsquery` syntax. None if the text has no words.
    beginnings: str | None


def text_search_statements(query: TextQuery, most: int, *, indexed: bool) -> list[Statement | str]:
    """Return the statements of a search: settings, and one query per kind of row.

    They need their own transaction, because they change its settings.
    """
    values: dict[str, Value] = {
        "text": query.text,
        "before_last": query.before_last,
        "last": query.last,
        "beginnings": query.beginnings,
        "indexed": indexed,
        "first": FIRST_ID,
        "newest": MAX_UNINDEXED_ROWS,
        "candidates": MAX_CANDIDATES,
        "most": most,
        "id": query.id,
        "wide": MAX_TITLE_LENGTH,
        "brief": MAX_BRIEF_LENGTH,
        "long": MAX_BODY_LENGTH,
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
    return SQL["workflows"](most=MAX_WORKFLOWS)
