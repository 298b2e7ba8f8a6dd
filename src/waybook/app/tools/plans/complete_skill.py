"""complete_skill: end a skill execution."""

from datetime import UTC

from pydantic import Field

from waybook.app.request.arguments import Id, Line, MutatingArguments
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil, not_found
from waybook.app.request.tool import Tool, output_schema
from waybook.core.changes import Change, Entity, Entry, Event
from waybook.errors import InvalidTransition, NextCall
from waybook.json_values import Body, Json
from waybook.store import audit, skill_executions
from waybook.store.audit import ChainHead
from waybook.store.plans import writer
from waybook.store.skill_executions import SkillExecutionRow


class CompleteSkill(MutatingArguments):
    skill_execution_id: Id = Field(description="from start_skill")
    outcome: Line | None = Field(default=None, description="one sentence on the result")


async def complete_skill(ctx: RequestContext, args: CompleteSkill) -> ToolReply:
    """Record that a skill execution is completed."""
    skill_id = id_or_nil(args.skill_execution_id)
    opened = OpenTransaction(ctx, skill_executions.SQL["lock_execution"](id=skill_id))

    async def decide() -> Proposal[Written]:
        if not opened.results[0]:
            raise not_found("skill execution")
        execution: SkillExecutionRow = opened.results[0][0]
        skill = execution.skill
        if execution.status != "started":
            raise InvalidTransition(
                f"this execution of the skill {skill} is already completed",
                old=execution.status,
                new="completed",
                next_call=NextCall("list_active_plans", {}, "List the open plans."),
            )
        head = ChainHead(
            execution.audit_seq, execution.audit_hash, execution.started_at.astimezone(UTC)
        )
        now = head.after(opened.now)
        row: dict[str, Json] = {
            "status": "completed",
            "completed_at": now.isoformat(),
            "outcome": args.outcome,
        }
        before: dict[str, Json] = {"status": "started"}
        changes = tuple(
            Change(Entity.SKILL_EXECUTION, execution.id, name, before.get(name), value)
            for name, value in row.items()
        )
        entry = Entry(Event.SKILL_COMPLETED, {"skill": skill}, changes)
        write_context = audit.WriteContext(now=now, actor=ctx.actor(), head=head)
        body: Body = {
            "skillExecutionId": execution.id,
            "name": skill,
            "status": "completed",
            "next": next_call("list_active_plans", "List the open plans."),
        }
        statements = writer.complete_skill(row, execution.id, entry, write_context)
        return Proposal(Written(statements), body)

    return await update(opened, decide)


TOOL = Tool(
    name="complete_skill",
    title="Complete a skill",
    description="Report that the work of a skill is done.",
    arguments=CompleteSkill,
    output_schema=output_schema(status="string"),
    run=complete_skill,
)
