"""Queries for threads of comments, and for what is assigned to a person or mentions the person."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from waybook.app.queries.agent_names import agent_name
from waybook.app.request.request_context import RequestContext
from waybook.core.comments import mentions
from waybook.core.decision_context import Channel
from waybook.core.ids import LAST_ID, id_or_nil
from waybook.errors import NotFound
from waybook.json_values import Body, fields_of, format_time, non_empty
from waybook.store.comments import SQL, CommentRow, Subject
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Ids, Row, Statement, first_column

__all__ = ["CommentRow", "Subject"]

PAGE_SIZE: Final = 20
_MAX_PEOPLE: Final = 100
_MAX_WALKED: Final = 1_000
#: Channels of people. Comments of other channels were written by agents.
_PEOPLE: Final = frozenset({Channel.DASHBOARD, Channel.CLI})


class CommentThread(NamedTuple):
    """A page of a thread, oldest comment first, and the users to whom it can be assigned."""

    subject: Subject
    comments: Sequence[CommentRow]
    people: Sequence[str]
    #: Id of the comment before which the next page ends. None if there are no earlier comments.
    earlier: str | None

    @property
    def assignee(self) -> str | None:
        named = [c.assignee for c in self.comments if c.assignee and not c.resolved_at]
        return named[-1] if named else None


async def find_subject(ctx: RequestContext, subject_id: str) -> Subject:
    """Return the plan, step, run or job with this id.

    Raises:
        NotFound: no plan, step, run or job of the caller's org has this id.
    """
    (rows,) = await ctx.read(SQL["subject"](id=id_or_nil(subject_id)))
    if not rows:
        message = "there is no plan, step, run or job with this id here; copy the id from a reply"
        raise NotFound(message, argument="subjectId")
    subject: Subject = rows[0]
    return subject


def thread_statements(
    subject: Subject, before: str | None = None, *, only_open: bool = False
) -> list[Statement]:
    last = id_or_nil(before) if before else LAST_ID
    return [
        SQL["thread"](**subject._asdict(), before=last, most=PAGE_SIZE + 1, only_open=only_open),
        SQL["people"](most=_MAX_PEOPLE),
    ]


def read_thread(subject: Subject, results: Results) -> CommentThread:
    rows, people = results
    shown = rows[:PAGE_SIZE]
    earlier = shown[-1].id if len(rows) > PAGE_SIZE else None
    return CommentThread(subject, shown[::-1], first_column(people), earlier)


async def comments_for(ctx: RequestContext, person: str, *, most: int) -> list[Row]:
    """Return the open comments that are assigned to a person or mention them, newest first."""
    (rows,) = await ctx.read(SQL["of_person"](person=person, walked=_MAX_WALKED, most=most))
    return [
        row
        for row in rows
        if row.comment.assignee == person or mentions(row.comment.body, [person])
    ]


async def run_assignees(ctx: RequestContext, run_ids: Sequence[str]) -> dict[str, str]:
    (rows,) = await ctx.read(SQL["run_assignees"](ids=Ids(run_ids)))
    return dict(rows)


def subject_path(subject: Subject) -> str:
    """Return the path of the page of a plan, step, run or job."""
    if subject.plan_id:
        step = f"/steps/{subject.step_id}" if subject.step_id else ""
        return f"/plans/{subject.plan_id}{step}"
    job = f"/jobs/{subject.job_id}" if subject.job_id else ""
    return f"/runs/{subject.run_id}{job}"


def written_by(comment: CommentRow) -> str:
    return agent_name(comment.created_by, comment.session, comment.channel)


def comment_view(comment: CommentRow) -> Body:
    return non_empty(
        commentId=comment.id,
        text=comment.body or None,
        by=comment.created_by,
        name=written_by(comment),
        author="person" if comment.channel in _PEOPLE else "agent",
        at=format_time(comment.created_at),
        **fields_of(comment, "assignee resolved_at resolved_by"),
    )
