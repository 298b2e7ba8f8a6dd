"""copy_plan: create a plan from another one, with the results that it keeps."""

from pydantic import Field

from waybook.app.queries.audit import LAST_SEQ, changes_in, read_all_entries
from waybook.app.request.arguments import MutatingArguments, Name, Offset, PlanIdField
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil, not_found
from waybook.app.request.tool import Tool, output_schema
from waybook.app.tools.plans.create_research_plan import created_plan_reply
from waybook.core.events import PLAN, ChangeEvent
from waybook.core.replay import replay
from waybook.errors import NextCall, NotFound
from waybook.plan.copy import CopiedPlan, CopyOptions, copy_plan
from waybook.store import skill_executions
from waybook.store.plans import writer


class CopyPlan(MutatingArguments):
    plan_id: PlanIdField = Field(description="the plan to copy")
    up_to_step: Offset | None = Field(default=None, description="keep results up to this step")
    at_audit_seq: Offset | None = Field(default=None, description="copy it as of this audit entry")
    name: Name | None = Field(default=None, description="name of the copy")


async def copy(ctx: RequestContext, args: CopyPlan) -> ToolReply:
    """Create a copy of a plan; link it to the session's latest skill."""
    source = await _copied_plan(ctx, args)
    opened = OpenTransaction(ctx, skill_executions.latest_statement(ctx.actor().holder))

    async def decide() -> Proposal[Written]:
        options = CopyOptions(
            name=args.name,
            skill_execution_id=skill_executions.read_latest(opened.results[0]),
        )
        decision = copy_plan(source, options, opened.decision_context)
        statements, head = writer.statements(None, decision, opened.write_context)
        event = ChangeEvent(PLAN, decision.plan.id, head.seq, list_changed=True)
        # Do not cache a copy: its conditions exist only as rows, which the next call loads.
        return Proposal(Written(statements, event=event), created_plan_reply(decision.plan))

    return await update(opened, decide)


async def _copied_plan(ctx: RequestContext, args: CopyPlan) -> CopiedPlan:
    """Rebuild the plan to copy as it was at the requested audit entry.

    Raises:
        NotFound: the plan does not exist, belongs to another org, or has no such audit entry.
    """
    plan_id, seq = id_or_nil(args.plan_id).lower(), args.at_audit_seq
    entries = await read_all_entries(ctx, plan_id, until=LAST_SEQ if seq is None else max(seq, 1))
    rows = replay(changes_in(entries))
    if "plan" not in rows:
        raise not_found("plan")
    last = entries[-1].seq
    if seq not in {None, last}:
        raise NotFound(
            f"that plan has no audit entry {seq}; its entries are numbered from 1",
            next_call=NextCall("copy_plan", {"planId": plan_id}, "Copy the plan as it is now."),
        )
    return CopiedPlan(id=plan_id, seq=last, rows=rows, up_to_step=args.up_to_step)


TOOL = Tool(
    name="copy_plan",
    title="Copy a plan",
    description=(
        "Copy a plan, open or closed, to continue or redo it; its results are kept. Then call "
        "get_next_step."
    ),
    arguments=CopyPlan,
    output_schema=output_schema(planId="string"),
    run=copy,
)
