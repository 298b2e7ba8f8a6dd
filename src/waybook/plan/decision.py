"""What a rule decides about a plan: what to answer, and what to write."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.errors import Refused
from waybook.plan.model import Plan, StepId
from waybook.record.changes import Entry

NO_TEXTS: Mapping[str, str] = MappingProxyType({})
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Decision(NamedTuple, Generic[ReplyT_co]):
    """What to answer and what to write. It has done neither."""

    reply: ReplyT_co
    plan: Plan
    entries: tuple[Entry, ...] = ()
    #: Steps that gave a sign of life.
    touched: tuple[StepId, ...] = ()
    #: An error to answer with after writing: a late result is refused, and kept.
    refusal: Refused | None = None
    #: The texts of new rows that the audit knows by their hash, by the id of the row.
    texts: Mapping[str, str] = NO_TEXTS
