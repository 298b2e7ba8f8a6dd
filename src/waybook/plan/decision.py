"""What a rule decides about a plan: what to answer, and what to write."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from waybook.errors import Refused
from waybook.plan.model import Plan, StepId
from waybook.record.changes import Entry

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[ReplyT_co]):
    """What to answer and what to write. It has done neither."""

    reply: ReplyT_co
    plan: Plan
    entries: tuple[Entry, ...] = ()
    #: Steps that gave a sign of life.
    touched: tuple[StepId, ...] = ()
    #: An error to answer with after writing: a late result is refused, and kept.
    refusal: Refused | None = field(default=None)
