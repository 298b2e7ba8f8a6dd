"""What stands in the way of a change, before somebody asks for it."""

from waybook.errors import Refused
from waybook.plan.model import Plan
from waybook.plan.modify import Modification, modify
from waybook.record.moment import DecisionContext


def blocking_reason(plan: Plan, modification: Modification, context: DecisionContext) -> str | None:
    """Why this change would be refused, in the words of the refusal; None if it would not be.

    It is the rule itself that is asked, so the two can never differ.
    """
    try:
        modify(plan, (modification,), context)
    except Refused as error:
        return error.message
    return None
