"""start_skill: begin a skill execution."""

from pydantic import Field

from waybook.app.request.arguments import Id, Key, MutatingArguments
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.app.skills.skill import Skill
from waybook.app.tools.plans.list_skills import file_names, find_skill
from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event
from waybook.json_values import Body, Json, non_empty
from waybook.store.driver.queries import new_id
from waybook.store.plans import writer


class StartSkill(MutatingArguments):
    name: Id = Field(description="from list_skills")
    session_id: Key = Field(description="one per conversation; links your next plan to the skill")


async def start_skill(ctx: RequestContext, args: StartSkill) -> ToolReply:
    """Record that this session uses a skill, and return the skill's text."""
    skill = find_skill(ctx, args.name)
    opened = OpenTransaction(ctx)

    async def decide() -> Proposal[Written]:
        skill_id = new_id()
        row: dict[str, Json] = {
            "skill": skill.name,
            "session": ctx.session,
            "status": "started",
            "output_media_type": skill.output_media_type,
            "formatting_instructions": skill.formatting_instructions,
            "started_at": opened.now.isoformat(),
            "started_by": ctx.caller.user,
        }
        made = Change(Entity.SKILL_EXECUTION, skill_id, WHOLE_ROW, None, row)
        entry = Entry(Event.SKILL_STARTED, {"skill": skill.name}, (made,))
        statements = writer.start_skill(row, skill_id, entry, opened.write_context)
        return Proposal(Written(statements), _reply(skill, skill_id))

    return await update(opened, decide)


def _reply(skill: Skill, skill_id: str) -> Body:
    return non_empty(
        skillExecutionId=skill_id,
        name=skill.name,
        status="started",
        instructions=skill.body,
        files=file_names(skill),
        outputMediaType=skill.output_media_type,
        outputFormattingInstructions=skill.formatting_instructions,
        next=next_call("create_research_plan", "Create the skill's plan, with the same sessionId."),
    )


TOOL = Tool(
    name="start_skill",
    title="Start a skill",
    description=(
        "Start work with a skill: returns its instructions. Then call create_research_plan."
    ),
    arguments=StartSkill,
    output_schema=output_schema(skillExecutionId="string"),
    run=start_skill,
)
