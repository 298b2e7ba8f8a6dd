"""Reading what a packet is made of: beginnings of texts, lists by the page, pieces of what was cut.

Texts come as far as there may be room for them, with their whole length beside them, so that what
is read is bounded whatever was stored.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from waybook.json_values import Json
from waybook.store.driver.queries import AsJson, Ids, Statement, load

SQL = load("plans/contexts")

#: How many entries of a list are read at a time.
PAGE = 40
#: How much of each text of a plan search asks for.
QUERY_TEXT_LENGTH = 500


class TextPrefix(NamedTuple):
    """As much of a text as was read; anything but a text is read if it is whole."""

    value: Json
    length: int


class StoredArtifact(NamedTuple):
    """An artifact: what it is, how it begins, and the passage that was found in it, if any."""

    id: str
    step_id: str | None
    kind: str
    title: str
    superseded: bool
    created_at: datetime
    created_by: str
    content: TextPrefix
    passage: str | None


class Page(NamedTuple):
    """Which entries of a list are asked for, and how much of each text."""

    offset: int = 0
    most: int = 1_200


FIRST_PAGE = Page()


def about_step_statement(step_id: str) -> Statement:
    """Ask what a step is about."""
    return SQL["about_step"](step_id=step_id, most=QUERY_TEXT_LENGTH)


def results_statement(plan_id: str, most: int) -> Statement:
    """The results of a plan's steps, as far as there may be room for them."""
    return SQL["result_prefixes"](plan_id=plan_id, most=most)


def instructions_statement(plan_id: str, most: int) -> Statement:
    """The same for the instructions."""
    return SQL["instruction_prefixes"](plan_id=plan_id, most=most)


def feedback_statement(plan_id: str, step_id: str, page: Page) -> Statement:
    """What people decided about a step."""
    return SQL["feedback"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def failures_statement(plan_id: str, step_id: str, page: Page) -> Statement:
    """Why a step was given up."""
    return SQL["failures"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def newest_statement(plan_id: str, step_id: str | None, page: Page) -> Statement:
    """What was stored with a plan, or with one of its steps."""
    return SQL["newest_artifacts"](
        plan_id=plan_id, step_id=step_id, most=page.most, offset=page.offset, page=PAGE
    )


def artifacts_statement(plan_id: str, parts: Mapping[str, int], most: int) -> Statement:
    """These artifacts of a plan, each with the passage that stands for it."""
    return SQL["artifacts_by_id"](
        plan_id=plan_id, ids=Ids(parts), parts=AsJson(dict(parts)), most=most
    )


def text_slice_statement(plan_id: str, kind: str, which: str | None, page: Page) -> Statement:
    """A piece of one of the texts of a plan. An id is an id, and an entry has a number."""
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
    """A piece of one of the texts of a step."""
    return SQL["step_text_slice"](
        plan_id=plan_id, kind=kind, id=step_id, offset=page.offset, most=page.most
    )


def read_prefix(kind: str, length: int, text: str) -> TextPrefix:
    """What was read of a JSON value: a text, or if it is whole the value itself."""
    if kind == "string" or len(text) < length:
        return TextPrefix(text, length)
    return TextPrefix(orjson.loads(text), length)


def read_stored(row: tuple[Any, ...]) -> StoredArtifact:
    """An artifact as the queries here bring it."""
    named, (kind, length, text, passage, _) = row[:7], row[7:]
    content = TextPrefix(None, 4) if text is None else read_prefix(kind, length, text)
    return StoredArtifact(*(*named, content, passage))
