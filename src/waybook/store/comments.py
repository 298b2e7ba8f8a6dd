"""Queries for comments, and the statements that write them with their plan or run."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from waybook.core.changes import Entity
from waybook.store.audit import Patches
from waybook.store.driver.queries import Statement, fill, load


class Subject(NamedTuple):
    """Subject of a thread of comments: a plan or run, or one of its steps or jobs."""

    plan_id: str | None = None
    step_id: str | None = None
    run_id: str | None = None
    job_id: str | None = None

    @property
    def id(self) -> str:
        return self.step_id or self.job_id or self.plan_id or self.run_id or ""


class CommentRow(NamedTuple):
    id: str
    plan_id: str | None
    step_id: str | None
    run_id: str | None
    job_id: str | None
    body: str
    assignee: str | None
    created_at: datetime
    created_by: str
    session: str | None
    channel: str
    resolved_at: datetime | None
    resolved_by: str | None
    now: datetime

    @property
    def subject(self) -> Subject:
        return Subject(self.plan_id, self.step_id, self.run_id, self.job_id)


SQL: Final = load(
    "comments",
    subject=Subject,
    thread=CommentRow,
    of_person=(CommentRow, "comment work_name step_order title"),
)


def comment_statements(
    patches: Patches, *, plan_id: str | None, run_id: str | None
) -> Iterator[Statement]:
    if Entity.COMMENT not in patches.entities:
        return
    for patch in patches.inserts[Entity.COMMENT]:
        parent = {"plan_id": plan_id, "run_id": run_id}
        yield fill(SQL["insert_comment"], patch.values, id=patch.id, **parent)
    for patch in patches.updates[Entity.COMMENT]:
        yield fill(SQL["resolve_comment"], patch.values, id=patch.id)
