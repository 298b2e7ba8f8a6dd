"""Tools that list the skills, and record that a skill is started or completed."""

from pydantic import Field

from waybook.app.request.arguments import Id, Key, MutatingArguments, ReadArguments, Text, optional
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import (
    LIST_PLANS,
    RequestContext,
    ToolReply,
    not_found,
    uuid_or_nil,
)
from waybook.app.request.services import Services
from waybook.app.request.tool import Tool
from waybook.app.skills.loader import read_skills
from waybook.app.skills.skill import Skill
from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event
from waybook.errors import InvalidInput, InvalidTransition, NextCall, NotFound
from waybook.json_values import Body, Json, non_empty
from waybook.research.packet import fair_share, truncate
from waybook.store import audit
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import new_uuid
from waybook.store.plans import writer


class InstalledSkills(tuple[Skill, ...]):
    __slots__ = ()


def installed_skills(services: Services) -> tuple[Skill, ...]:
    folders = services.settings.skills_dirs
    return services.shared(InstalledSkills, lambda: InstalledSkills(read_skills(folders)))


_LIST_SKILLS = NextCall("list_skills", {}, "List the skills.")
_MAX_DESCRIPTIONS_BYTES = 25_000
_MAX_FILE_BYTES = 40_000


class _ListSkills(ReadArguments):
    name: Id | None = optional("one skill, with its files")
    file: Text | None = optional("file of this skill to read")


@Tool(
    title="List skills",
    description="List the skills (instructions for a kind of work), or read one.",
    reply={"skills": "array"},
    reads_only=True,
)
async def list_skills(ctx: RequestContext, args: _ListSkills) -> Body:
    if args.name is None and args.file is not None:
        message = "to read a file, give the name of its skill too"
        raise NotFound(message, next_call=_LIST_SKILLS)
    if args.name is None:
        skills = installed_skills(ctx.services)
        share = fair_share([len(skill.description) for skill in skills], _MAX_DESCRIPTIONS_BYTES)
        start = next_call("start_skill", "Start the skill that fits, then create a plan.")
        return {"skills": [_view(skill, share) for skill in skills], "next": start}
    skill = _find_skill(ctx, args.name)
    start = next_call("start_skill", "Start work with this skill.", name=skill.name)
    view = {**_view(skill), **non_empty(files=_file_names(skill))}
    if args.file is None:
        return {"skills": [view], "next": start}
    file = skill.file(args.file)
    if file is None:
        again = NextCall("list_skills", {"name": skill.name}, "List the files of the skill.")
        raise NotFound(f"the skill {skill.name} has no such file", next_call=again)
    resource = f"skill://{skill.name}/{file.path}"
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            "this file is not text; read its resource to get its bytes", resource=resource
        ) from None
    shown = truncate(text, _MAX_FILE_BYTES)
    part: Body = {"path": file.path, "text": shown}
    if left := len(text) - len(shown):
        part |= {"left": left, "resource": resource}
    return {"skills": [view], "file": part, "next": start}


def _find_skill(ctx: RequestContext, name: str) -> Skill:
    for skill in installed_skills(ctx.services):
        if skill.name == name:
            return skill
    raise NotFound("there is no skill with this name here", next_call=_LIST_SKILLS)


def _file_names(skill: Skill) -> list[Json] | None:
    return [file.path for file in skill.extra_files] or None


def _view(skill: Skill, share: int | None = None) -> Body:
    text = skill.description
    return non_empty(
        name=skill.name,
        description=text if share is None or len(text) <= share else f"{text[:share]} …",
        outputMediaType=skill.output_media_type,
    )


class _StartSkill(MutatingArguments):
    name: Id = Field(description="from list_skills")
    session_id: Key = Field(description="one per conversation; links your next plan")


@Tool(
    title="Start a skill",
    description=(
        "Start work with a skill: returns its instructions. Then call create_research_plan."
    ),
    reply={"skillExecutionId": "string"},
)
async def start_skill(ctx: RequestContext, args: _StartSkill) -> ToolReply:
    skill = _find_skill(ctx, args.name)
    opened = OpenTransaction(ctx)

    async def decide() -> Proposal[Written]:
        skill_id = new_uuid()
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
        statements = writer.write_skill(row, skill_id, entry, opened.write_context)
        why = "Create the skill's plan, with the same sessionId."
        body = non_empty(
            skillExecutionId=skill_id,
            name=skill.name,
            status="started",
            instructions=skill.body,
            files=_file_names(skill),
            outputMediaType=skill.output_media_type,
            outputFormattingInstructions=skill.formatting_instructions,
            next=next_call("create_research_plan", why),
        )
        return Proposal(Written(statements), body)

    return await update(opened, decide)


class _CompleteSkill(MutatingArguments):
    skill_execution_id: Id = Field(description="from start_skill")
    outcome: Text | None = optional("one sentence on the result")


@Tool(
    title="Complete a skill",
    description="Report that a skill is done.",
    reply={"status": "string"},
)
async def complete_skill(ctx: RequestContext, args: _CompleteSkill) -> ToolReply:
    skill_id = uuid_or_nil(args.skill_execution_id)
    opened = OpenTransaction(ctx, writer.SQL["lock_execution"](id=skill_id))

    async def decide() -> Proposal[Written]:
        if not opened.results[0]:
            raise not_found("skill execution")
        execution = opened.results[0][0]
        skill = execution.skill
        if execution.status != "started":
            raise InvalidTransition(
                f"this execution of the skill {skill} is already completed",
                old=execution.status,
                new="completed",
                next_call=LIST_PLANS,
            )
        head = ChainHead(execution.audit_seq, execution.audit_hash, execution.started_at)
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
        statements = writer.write_skill(row, execution.id, entry, write_context)
        return Proposal(Written(statements), body)

    return await update(opened, decide)
