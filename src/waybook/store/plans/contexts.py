"""Queries for step contexts. Each text is read only up to a given length."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from waybook.json_values import Json
from waybook.store.driver.queries import AsJson, Ids, Statement, load


class TextPrefix(NamedTuple):
    """The beginning of a text, and the length of the whole text."""

    value: Json
    length: int


class StepSubject(NamedTuple):
    """The plan of a step, and the question by which research for the step is found."""

    plan_id: str
    question: str
    has_research: bool


class ResultPrefixRow(NamedTuple):
    step_id: str
    confidence: float | None
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


class StoredArtifact(NamedTuple):
    id: str
    step_id: str | None
    kind: str
    title: str
    superseded: bool
    created_at: datetime
    created_by: str
    content_type: str
    length: int
    text: str | None
    passage: str | None
    #: Number of artifacts on all pages.
    total: int

    @property
    def content(self) -> TextPrefix:
        if self.text is None:
            return TextPrefix(None, 4)
        return read_prefix(self.content_type, self.length, self.text)


class TextSliceRow(NamedTuple):
    length: int | None
    text: str


SQL = load(
    "plans/contexts",
    about_step=StepSubject,
    result_prefixes=ResultPrefixRow,
    instruction_prefixes=InstructionPrefixRow,
    feedback=FeedbackRow,
    failures=FailureRow,
    newest_artifacts=StoredArtifact,
    artifacts_by_id=StoredArtifact,
    plan_text_slice=TextSliceRow,
    step_text_slice=TextSliceRow,
)


class Page(NamedTuple):
    offset: int = 0
    most: int = 1_200


FIRST_PAGE = Page()


def artifacts_statement(plan_id: str, parts: Mapping[str, int], most: int) -> Statement:
    """Select artifacts of a plan. `parts` has the number of the passage to read, by artifact id."""
    return SQL["artifacts_by_id"](
        plan_id=plan_id, ids=Ids(parts), parts=AsJson(dict(parts)), most=most
    )


def text_slice_statement(plan_id: str, kind: str, which: str | None, page: Page) -> Statement:
    numbered = which is not None and which.isdecimal()
    return SQL["plan_text_slice"](
        plan_id=plan_id,
        kind=kind,
        id=None if numbered else which,
        seq=int(which) if which is not None and numbered else None,
        **page._asdict(),
    )


def read_prefix(kind: str | None, length: int, text: str) -> TextPrefix:
    """Return the JSON value, or the beginning of its JSON text if only that was read."""
    if kind == "string" or len(text) < length:
        return TextPrefix(text, length)
    return TextPrefix(orjson.loads(text), length)


def total_count(rows: Sequence[StoredArtifact | FeedbackRow | FailureRow]) -> int:
    return rows[0].total if rows else 0
