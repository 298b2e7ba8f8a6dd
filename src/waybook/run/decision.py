"""What a rule decides about a run: what to answer, and what to write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from waybook.errors import Refused
from waybook.record.changes import Entry
from waybook.run.model import Job, NewDocument, Run

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class RunDecision(Generic[ReplyT_co]):
    """What to answer and what to write. It has done neither."""

    reply: ReplyT_co
    run: Run
    entries: tuple[Entry, ...] = ()
    #: Every job that was made or changed, as it is now.
    jobs: Mapping[str, Job] = field(default_factory=dict)
    documents: tuple[NewDocument, ...] = ()
    #: Texts that belong to a change but are too large for the audit, by the row's id.
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Jobs that gave a sign of life.
    touched: tuple[str, ...] = ()
    #: An error to answer with after writing: a late result is refused, and kept.
    refusal: Refused | None = None
