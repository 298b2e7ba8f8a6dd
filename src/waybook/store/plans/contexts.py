"""Queries for context packets: beginnings of texts, pages of lists, and parts of long texts.

Each text is read up to the available budget, together with its full length, so the amount read is
bounded regardless of the amount stored.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from waybook.json_values import Json
from waybook.store.driver.queries import AsJson, Ids, Statement, load

#: Maximum number of list entries that one query reads.
PAGE = 40
#: Maximum length of each text in a search query: the research question and the instructions of the
#: step.
QUERY_TEXT_LENGTH = 500


class TextPrefix(NamedTuple):
    """Beginning of a text, and the text's full length; non-string values are never truncated."""

    value: Json
    length: int


class StoredArtifact(NamedTuple):
    """Artifact with its metadata, the start of its content, and the matching passage, if any."""

    id: str
    step_id: str | None
    kind: str
    title: str
    superseded: bool
    created_at: datetime
    created_by: str
    content: TextPrefix
    passage: str | None


class StepSubject(NamedTuple):
    """Text that describes a step's topic, and the plan that the step belongs to."""

    plan_id: str
    question: str
    has_research: bool


class ResultPrefixRow(NamedTuple):
    step_id: str
    confidence: float | None
    #: JSON type of the step's result.
    kind: str | None
    length: int
    text: str | None


class InstructionPrefixRow(NamedTuple):
    step_id: str
    length: int
    text: str


class FeedbackRow(NamedTuple):
    id: str
    decision: str
    decided_by: str
    decided_at: datetime
    length: int
    feedback: str | None
    total: int


class FailureRow(NamedTuple):
    seq: int
    at: datetime
    actor: str
    length: int
    reason: str | None
    total: int


class ArtifactRow(NamedTuple):
    id: str
    step_id: str | None
    kind: str
    title: str
    superseded: bool
    created_at: datetime
    created_by: str
    content_type: str
    length: int
    content: str | None
    passage: str | None
    total: int


class TextSliceRow(NamedTuple):
    #: Length of the whole text, of which `text` is a part; None if there is no such text.
    length: int | None
    text: str


SQL = load(
    "plans/contexts",
    about_step=StepSubject,
    result_prefixes=ResultPrefixRow,
    instruction_prefixes=InstructionPrefixRow,
    feedback=FeedbackRow,
    failures=FailureRow,
    newest_artifacts=ArtifactRow,
    artifacts_by_id=ArtifactRow,
    plan_text_slice=TextSliceRow,
    step_text_slice=TextSliceRow,
)


class Page(NamedTuple):
    """Start of a page in a list, and the maximum length of each text in the page."""

    offset: int = 0
    most: int = 1_200


FIRST_PAGE = Page()


def about_step_statement(step_id: str) -> Statement:
    """Select a plan's question and a step's instructions, from which a search query is made."""
    return SQL["about_step"](step_id=step_id, most=QUERY_TEXT_LENGTH)


def results_statement(plan_id: str, most: int) -> Statement:
    """Select the results of a plan's steps, each up to `most` characters."""
    return SQL["result_prefixes"](plan_id=plan_id, most=most)


def instructions_statement(plan_id: str, most: int) -> Statement:
    """Select the instructions of a plan's steps, each up to `most` characters."""
    return SQL["instruction_prefixes"](plan_id=plan_id, most=most)


def feedback_statement(plan_id: str, step_id: str, page: Page) -> Statement:
    """Select the review decisions on a step."""
    return SQL["feedback"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def failures_statement(plan_id: str, step_id: str, page: Page) -> Statement:
    """Select the failure reasons of a step."""
    return SQL["failures"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def newest_statement(plan_id: str, step_id: str | None, page: Page) -> Statement:
    """Select the newest artifacts of a plan, or of one of its steps."""
    return SQL["newest_artifacts"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def artifacts_statement(plan_id: str, parts: Mapping[str, int], most: int) -> Statement:
    """Select the given artifacts of a plan, each with the passage whose number is in `parts`."""
    return SQL["artifacts_by_id"](
        plan_id=plan_id, ids=Ids(parts), parts=AsJson(dict(parts)), most=most
    )


def text_slice_statement(plan_id: str, kind: str, which: str | None, page: Page) -> Statement:
    """Select a part of one of a plan's texts; `which` is the id or the audit number of the text."""
    numbered = which is not None and which.isdecimal()
    return SQL["plan_text_slice"](
        plan_id=plan_id,
        kind=kind,
        id=None if numbered else which,
        seq=int(which) if which is not None and numbered else None,
        offset=page.offset,
        most=page.most,
    )


def step_text_slice_statement(plan_id: str, kind: str, step_id: str, page: Page) -> Statement:
    """Select a part of one text of a step, from an offset."""
    return SQL["step_text_slice"](
        plan_id=plan_id, kind=kind, id=step_id, offset=page.offset, most=page.most
    )


def read_prefix(kind: str | None, length: int, text: str) -> TextPrefix:
    """Return a JSON value, or the start of its JSON text if the text was truncated."""
    if kind == "string" or len(text) < length:
        return TextPrefix(text, length)
    return TextPrefix(orjson.loads(text), length)


def read_stored(row: ArtifactRow) -> StoredArtifact:
    """Convert a selected row to an artifact for a context packet."""
    return StoredArtifact(
        id=row.id,
        step_id=row.step_id,
        kind=row.kind,
        title=row.title,
        superseded=row.superseded,
        created_at=row.created_at,
        created_by=row.created_by,
        content=TextPrefix(None, 4)
        if row.content is None
        else read_prefix(row.content_type, row.length, row.content),
        passage=row.passage,
    )


def total_count(rows: Sequence[ArtifactRow | FeedbackRow | FailureRow]) -> int:
    """Return the total length of a list from the first row of a page; every row repeats it."""
    return rows[0].total if rows else 0
