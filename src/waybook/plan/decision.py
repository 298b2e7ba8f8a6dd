"""Decisions about plans, and the refusals that several rules share.

Each refusal carries the call that is safe to make instead.
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
    """Reply and writes that a rule decided on; neither has been carried out."""

    reply: ReplyT_co
    plan: Plan
    entries: tuple[Entry, ...] = ()
    #: Steps whose heartbeat the call renews.
    touched: tuple[StepId, ...] = ()
    #: Error to raise after writing: a late result is refused, but stored.
    refusal: Refused | None = None
    #: Texts of new rows that the audit refers to by hash, keyed by row id.
    texts: Mapping[str, str] = NO_TEXTS


def status_call(plan: Plan, why: str) -> NextCall:
    """Return the safe next call after most refusals: read the plan's status."""
    return NextCall("get_plan_status", {"planId": plan.id}, why)


def require_open(plan: Plan) -> None:
    """Check that the plan is open.

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
