"""News: that a plan or a run has changed, told in ids and numbers alone.

What changed is read where it is kept, by whoever may read it. `encode_batches` makes short texts of
many news, to be sent from one process to the others; `decode_batch` reads them, and no text upsets
it.

What people are told without asking: that something has happened which may need them.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from re import compile as pattern
from typing import Final, NamedTuple
from uuid import UUID

from waybook.json_values import Json

#: A payload of PostgreSQL's NOTIFY has fewer than 8,000 bytes.
MAX_PAYLOAD_BYTES: Final = 7_900

PLAN: Final = "plan"
RUN: Final = "run"

_TOLD = pattern(r"(plan|run):([0-9a-f-]{36}):([0-9]{1,10})(!?)")
_HEAD = pattern(r"([0-9a-f]{8}) ([0-9a-f-]{36})")


class ChangeEvent(NamedTuple):
    """A plan or a run stands at this number of its audit."""

    kind: str
    id: str
    version: int
    #: Whether it may stand otherwise as a whole: as a list shows it, or before a person.
    list_changed: bool = False


class EventBatch(NamedTuple):
    """News of one org, and which process sends them."""

    sender: str
    org_id: UUID
    news: tuple[ChangeEvent, ...]


def event_topics(event: ChangeEvent) -> tuple[str, ...]:
    """What somebody may have asked to be told of.

    >>> event_topics(ChangeEvent("plan", "7", 3, list_changed=True))
    ('plan:7', 'plans', 'inbox')
    """
    told = (f"{event.kind}:{event.id}", f"{event.kind}s")
    return (*told, "inbox") if event.list_changed else told


def merge_events(known: ChangeEvent | None, event: ChangeEvent) -> ChangeEvent:
    """Two news of the same plan or run as one."""
    if known is None:
        return event
    later = max(known.version, event.version)
    return event._replace(version=later, list_changed=known.list_changed or event.list_changed)


def encode_batches(sender: str, org_id: UUID, news: Iterable[ChangeEvent]) -> Iterator[str]:
    """Texts that hold all these news of an org, none too long to be sent."""
    head = f"{sender} {org_id}"
    text = head
    for one in news:
        told = f" {one.kind}:{one.id}:{one.version}{'!' if one.list_changed else ''}"
        if len(text) + len(told) > MAX_PAYLOAD_BYTES:
            yield text
            text = head
        text += told
    if text != head:
        yield text


def decode_batch(payload: str) -> EventBatch | None:
    """The news in a text; none if it is not one of ours."""
    head = _HEAD.match(payload)
    if head is None:
        return None
    told = [_TOLD.fullmatch(word) for word in payload[head.end() :].split()]
    try:
        org_id = UUID(head[2])
    except ValueError:
        return None
    news = tuple(ChangeEvent(one[1], one[2], int(one[3]), one[4] == "!") for one in told if one)
    return EventBatch(head[1], org_id, news)


#: The characters a name may have in a notice, and a summary.
MAX_NAME_LENGTH = 200
MAX_SUMMARY_LENGTH = 500
#: The parts a notice names, at most.
MAX_NAMES_LISTED = 10


class NotificationKind(StrEnum):
    """What a notice can be about."""

    REVIEW_REQUESTED = "plan.review_requested"
    PLAN_STALLED = "plan.stalled"
    PLAN_COMPLETED = "plan.completed"
    PLAN_FAILED = "plan.failed"
    AWAITING_FEEDBACK = "run.awaiting_feedback"
    STAGE_FAILED = "run.stage_failed"
    RUN_COMPLETED = "run.completed"
    #: Sent by whoever wants to know whether notices arrive.
    TEST = "webhook.test"


class Notification(NamedTuple):
    """One thing to tell, of one plan or run: ids, names and counts, never what a result says."""

    kind: NotificationKind
    subject_id: str
    data: dict[str, Json]


def shorten(text: str, most: int = MAX_NAME_LENGTH) -> str:
    r"""A text on one line, of so many characters at most.

    >>> shorten("Rivers\n of  Asia"), shorten("abcdef", 4)
    ('Rivers of Asia', 'abc…')
    """
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
