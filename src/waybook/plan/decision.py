"""What a rule decides about a plan: what to answer, and what to write.

The refusals several rules share, each with the call that is safe to make instead.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.core.changes import Entry
from waybook.errors import NextCall, PlanTerminal, Refused
from waybook.plan.model import Plan, StepId
from waybook.plan.states import CLOSED_PLAN

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


def status_call(plan: Plan, why: str) -> NextCall:
    """The safe next call after most refusals: look where the plan stands."""
    return NextCall("get_plan_status", {"planId": plan.id}, why)


def require_open(plan: Plan) -> None:
    """Let only open plans pass.

    Raises:
        PlanTerminal: the plan is completed or failed.
    """
    if plan.status in CLOSED_PLAN:
        raise PlanTerminal(
            f"this plan is {plan.status} and takes no more changes; its steps stay as they were",
            next_call=status_call(plan, "read how the plan ended; to go on, create a new plan"),
            planId=plan.id,
            status=str(plan.status),
            reason=plan.fail_reason,
        )
