"""store_research_output: store an output of a plan."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from waybook.app.request.arguments import MutatingArguments, Name, PlanIdField
from waybook.app.request.locks.aggregates import LockedPlan, PlanProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import next_after_completion, next_call, output_view
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.tool import Tool
from waybook.json_values import Body
from waybook.plan.model import CLOSED_PLAN
from waybook.plan.store_output import (
    COMMON_TYPES,
    NewOutput,
    parse_text_type,
    store_output,
)
from waybook.store.plans import details, load
from waybook.store.plans.rows import PlanBrief


class _StoreResearchOutput(MutatingArguments):
    plan_id: PlanIdField
    media_type: Annotated[Name, WithJsonSchema({"type": "string", "enum": [*COMMON_TYPES]})] = (
        Field(description="format of the text")
    )
    title: Name = Field(description="reuse a title to store its next version")
    content: str = Field(min_length=1, description="the whole text")


@Tool(
    title="Store an output",
    description="Store an output of a plan, open or completed. Earlier versions are kept.",
    reply={"outputId": "string", "version": "integer"},
)
async def store_research_output(ctx: RequestContext, args: _StoreResearchOutput) -> ToolReply:
    """Store an output as the next version of its title; an identical output changes nothing."""
    new = NewOutput(
        media_type=parse_text_type(args.media_type), title=args.title, content=args.content
    )
    plan_id = id_or_nil(args.plan_id)
    there = (details.outputs_statement(plan_id), load.brief_statement(plan_id))
    locked = LockedPlan(ctx, *there, plan_id=plan_id, review=False)

    async def decide() -> PlanProposal:
        before = details.read_outputs(locked.results[0])
        decision = store_output(locked.plan, new, before, locked.decision_context)
        plan, output = locked.plan, decision.reply.output
        following = next_call("get_next_step", "Claim the next step.", planId=plan.id)
        if plan.status in CLOSED_PLAN:
            brief: PlanBrief = locked.results[1][0]
            following = next_after_completion(
                plan.id, brief.output_media_type, brief.skill_execution_id, [*before, output]
            )
        body: Body = {
            "planId": plan.id,
            "status": "stored" if decision.reply.is_new else "unchanged",
            **output_view(output),
            "resource": f"waybook://outputs/{output.id}",
            "downloadUrl": f"{ctx.services.base_url}/api/outputs/{output.id}",
            "next": following,
        }
        return Proposal(decision, body)

    return await update(locked, decide)
