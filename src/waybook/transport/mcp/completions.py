"""Completion of the one argument people cannot type from memory: a plan's id."""

from dataclasses import dataclass
from typing import Final

import mcp_types as wire

from waybook.transport.entrance import Entrance
from waybook.transport.mcp.active import ActivePlan, active_plans
from waybook.transport.mcp.refusals import Context
from waybook.transport.mcp.resources import PLAN

MOST: Final = 100  # the protocol allows no more


@dataclass(frozen=True, slots=True)
class Completions:
    """The ids of active plans, found by the beginning of the id or a part of the name."""

    entrance: Entrance

    async def complete(
        self, context: Context, params: wire.CompleteRequestParams
    ) -> wire.CompleteResult:
        """Complete a plan's id; other arguments have nothing to complete."""
        if not names_a_plan(params):
            return wire.CompleteResult(completion=wire.Completion(values=[]))
        page = await active_plans(self.entrance, context)
        values = [plan.id for plan in page.plans if fits(plan, params.argument.value)]
        more = page.next_cursor is not None or len(values) > MOST
        return wire.CompleteResult(completion=wire.Completion(values=values[:MOST], has_more=more))


def names_a_plan(params: wire.CompleteRequestParams) -> bool:
    """Whether the argument is `resume_plan`'s plan, or the id in a plan's URI."""
    match params.ref:
        case wire.PromptReference(name="resume_plan"):
            return params.argument.name == "planId"
        case wire.ResourceTemplateReference(uri=uri):
            return uri == PLAN and params.argument.name == "id"
    return False


def fits(plan: ActivePlan, typed: str) -> bool:
    """Whether what was typed so far means this plan."""
    return plan.id.startswith(typed) or typed.casefold() in plan.name.casefold()
