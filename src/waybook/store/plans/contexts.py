"""Queries for step contexts. Each text is read only up to a given length."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from waybook.json_values import Json
from waybook.store.comments import CommentRow
from waybook.store.driver.queries import AsJson, Ids, Row, Statement, load


class TextPrefix(NamedTuple):
    """The beginning of a text, and the length of the whole text."""

    value: Json
    length: int


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


SQL = load(
    "plans/contexts",
    comments=(CommentRow, "comment total"),
    newest_artifacts=StoredArtifact,
    artifacts_by_id=StoredArtifact,
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


def total_count(rows: Sequence[StoredArtifact | Row]) -> int:
    return rows[0].total if rows else 0
