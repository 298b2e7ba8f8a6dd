"""Defines change events of plans and runs, and notifications for people.

A change event contains only ids and numbers. A subscriber must read the change itself, with its own
permissions.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from re import compile as pattern
from typing import Final, NamedTuple
from uuid import UUID

from waybook.json_values import Json

#: PostgreSQL accepts only NOTIFY payloads of less than 8,000 bytes.
MAX_PAYLOAD_BYTES: Final = 7_900

PLAN: Final = "plan"
RUN: Final = "run"
#: Agents that work, and the caps at which they stop.
WORK: Final = "work"

_CHANGE = pattern(r"(plan|run|work):([0-9a-z]{12}):([0-9]{1,10})(!?)")
_HEAD = pattern(r"([0-9a-f]{8}) ([0-9a-f-]{36})")


class ChangeEvent(NamedTuple):
    kind: str
    id: str
    version: int
    #: Whether the change may also affect lists and the inbox, and not only the page of the plan or
    #: run.
    list_changed: bool = False


def encode_batches(sender: str, org_id: UUID, events: Iterable[ChangeEvent]) -> Iterator[str]:
    head = f"{sender} {org_id}"
    text = head
    for event in events:
        encoded = f" {event.kind}:{event.id}:{event.version}{'!' if event.list_changed else ''}"
        if len(text) + len(encoded) > MAX_PAYLOAD_BYTES:
            yield text
            text = head
        text += encoded
    if text != head:
        yield text


def decode_batch(payload: str) -> tuple[str, UUID, tuple[ChangeEvent, ...]] | None:
    """Return the sender, the org and the events of a NOTIFY payload, or None if it is invalid."""
    head = _HEAD.match(payload)
    if head is None:
        return None
    matches = [_CHANGE.fullmatch(word) for word in payload[head.end() :].split()]
    try:
        org_id = UUID(head[2])
    except ValueError:
        return None
    events = tuple(
        ChangeEvent(match[1], match[2], int(match[3]), match[4] == "!")
        for match in matches
        if match
    )
    return head[1], org_id, events


MAX_NAME_LENGTH = 200
MAX_SUMMARY_LENGTH = 500
MAX_NAMES_LISTED = 10


class NotificationKind(StrEnum):
    REVIEW_REQUESTED = "plan.review_requested"
    REVIEW_OVERDUE = "plan.review_overdue"
    PLAN_STALLED = "plan.stalled"
    PLAN_COMPLETED = "plan.completed"
    PLAN_FAILED = "plan.failed"
    PLAN_COMMENTED = "plan.commented"
    AWAITING_FEEDBACK = "run.awaiting_feedback"
    STAGE_FAILED = "run.stage_failed"
    RUN_COMPLETED = "run.completed"
    RUN_CANCELED = "run.canceled"
    RUN_COMMENTED = "run.commented"
    TEST = "webhook.test"


class Notification(NamedTuple):
    """A message about one plan or run. It has ids, names and counts, but never results."""

    kind: NotificationKind
    subject_id: str
    data: dict[str, Json]


def shorten(text: str, most: int = MAX_NAME_LENGTH) -> str:
    r"""Return the text on one line, cut to `most` characters.

    >>> shorten("Rivers\n of  Asia"), shorten("abcdef", 4)
    ('Rivers of Asia', 'abc…')
    """
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
