"""Rule for comments on a plan, step, run or job: write one, and resolve others.

The same rule serves plans and runs, because a comment changes nothing else about them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from waybook.core.changes import BaseDraft, Entity, Event, as_json
from waybook.errors import InvalidInput, NotFound, TooLarge
from waybook.json_values import Json

MAX_TEXT_LENGTH: Final = 4_000
MAX_OPEN_COMMENTS: Final = 200
MAX_RESOLVED: Final = 50


class NewComment(NamedTuple):
    text: str = ""
    #: The person who is expected to act: to decide, to give feedback or to answer.
    assignee: str | None = None
    resolves: tuple[str, ...] = ()


class Thread(NamedTuple):
    open_count: int
    #: Whether the comments that are to be resolved are open; by id.
    is_open: Mapping[str, bool]
    #: Users whom the comment may name.
    people: frozenset[str]


def mentions(text: str, people: Iterable[str]) -> tuple[str, ...]:
    """Return the people whom a text mentions as @name. Case does not matter.

    >>> mentions("@ann, ask @Bob Li; not bob@ann.org", ["ann", "Bob", "Bob Li", "org"])
    ('Bob Li', 'ann')
    """
    mentioned = list[str]()
    for name in sorted(people, key=lambda name: (-len(name), name)):
        text, count = re.subn(rf"(?<![\w@])@{re.escape(name)}(?!\w)", "", text, flags=re.IGNORECASE)
        mentioned += [name] * bool(count)
    return tuple(mentioned)


def comment(
    draft: BaseDraft, about: Mapping[str, Json], new: NewComment, thread: Thread
) -> tuple[str | None, Sequence[str]]:
    """Write a comment and resolve others: return its id, and the ids of the resolved comments.

    `about` names the step or job in the audit's details.

    Raises:
        InvalidInput: there is nothing to do, or no such user to assign the comment to.
        NotFound: a comment to resolve does not exist in this plan or run.
        TooLarge: the thread has too many open comments.
    """
    now, actor = as_json(draft.moment.now), draft.moment.actor
    is_written = bool(new.text or new.assignee)
    if not is_written and not new.resolves:
        raise InvalidInput("write a text, or name the comments to resolve", argument="text")
    if len(new.resolves) > MAX_RESOLVED:
        raise TooLarge(f"resolve at most {MAX_RESOLVED} comments in one call", limit=MAX_RESOLVED)
    if new.assignee is not None and new.assignee not in thread.people | {actor.user}:
        raise InvalidInput(f"there is no user {new.assignee} in this org", argument="assignee")
    if unknown := [i for i in new.resolves if i not in thread.is_open]:
        raise NotFound(f"there is no comment {unknown[0]} here", argument="resolveIds")
    resolved = [i for i in dict.fromkeys(new.resolves) if thread.is_open[i]]
    if is_written and thread.open_count - len(resolved) >= MAX_OPEN_COMMENTS:
        message = f"this thread has {MAX_OPEN_COMMENTS} open comments; resolve some first"
        raise TooLarge(message, limit=MAX_OPEN_COMMENTS)
    for settled in resolved:
        draft.note(Entity.COMMENT, settled, "resolved_at", None, now)
        draft.note(Entity.COMMENT, settled, "resolved_by", None, actor.user)
    comment_id = draft.moment.new_id() if is_written else None
    if comment_id:
        row: dict[str, Json] = {
            "step_id": about.get("stepId"),
            "job_id": about.get("jobId"),
            "body": new.text,
            "assignee": new.assignee,
            "created_at": now,
            "created_by": actor.user,
            "session": actor.session,
            "channel": str(actor.channel),
        }
        draft.insert(Entity.COMMENT, comment_id, row)
    if comment_id or resolved:
        action = "commented" if comment_id else "comments_resolved"
        draft.record(Event.PLAN_MODIFIED, action=action, **about)
    return comment_id, resolved
