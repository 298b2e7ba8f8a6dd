"""list_skills: the available skills, and the files of a single skill."""

from pydantic import Field

from waybook.app.request.arguments import Id, Line, ReadArguments
from waybook.app.request.installed_skills import installed_skills
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.app.skills.skill import Skill, SkillFile
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.json_values import Body, Json, non_empty
from waybook.research.cutting import fair_share, truncate

MAX_DESCRIPTIONS_BYTES = 25_000
FILE = 40_000


class ListSkills(ReadArguments):
    name: Id | None = Field(default=None, description="one skill, with its files")
    file: Line | None = Field(default=None, description="file of this skill to read")


async def list_skills(ctx: RequestContext, args: ListSkills) -> Body:
    """Return all configured skills, or one skill, or one file of a skill."""
    if args.name is None and args.file is not None:
        raise NotFound(
            "there is no such file outside a skill; give the name of the skill too",
            next_call=NextCall("list_skills", {}, "List the skills."),
        )
    if args.name is None:
        return {
            "skills": _listed(installed_skills(ctx.services)),
            "next": next_call("start_skill", "Start the skill that fits, then create a plan."),
        }
    skill = find_skill(ctx, args.name)
    start = next_call("start_skill", "Start work with this skill.", name=skill.name)
    shown = {} if args.file is None else {"file": _file_view(skill, args.file)}
    return {"skills": [_view(skill, skill.description)], **shown, "next": start}


def find_skill(ctx: RequestContext, name: str) -> Skill:
    """Return the skill with this name.

    Raises:
        NotFound: there is no such skill.
    """
    for skill in installed_skills(ctx.services):
        if skill.name == name:
            return skill
    raise NotFound(
        "there is no skill with this name here",
        next_call=NextCall("list_skills", {}, "List the skills."),
    )


def file_names(skill: Skill) -> list[Json] | None:
    return [file.path for file in skill.extra_files] or None


def _listed(skills: tuple[Skill, ...]) -> list[Json]:
    share = fair_share([len(skill.description) for skill in skills], MAX_DESCRIPTIONS_BYTES)
    return [_view(skill, _shortened(skill.description, share), files=False) for skill in skills]


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def _view(skill: Skill, description: str, *, files: bool = True) -> Body:
    return non_empty(
        name=skill.name,
        description=description,
        outputMediaType=skill.output_media_type,
        files=file_names(skill) if files else None,
    )


def _file_view(skill: Skill, path: str) -> Body:
    file = skill.file(path)
    if file is None:
        raise NotFound(
            f"the skill {skill.name} has no such file",
            next_call=NextCall("list_skills", {"name": skill.name}, "List the files of the skill."),
        )
    text = text_of(file)
    if text is None:
        raise InvalidInput(
            "this file is not text; read its resource to get its bytes",
            resource=f"skill://{skill.name}/{file.path}",
        )
    shown = truncate(text, FILE)
    resource = f"skill://{skill.name}/{file.path}" if len(shown) < len(text) else None
    return non_empty(
        path=file.path, text=shown, left=len(text) - len(shown) or None, resource=resource
    )


def text_of(file: SkillFile) -> str | None:
    try:
        return file.content.decode()
    except UnicodeDecodeError:
        return None


TOOL = Tool(
    name="list_skills",
    title="List skills",
    description="List the skills (instructions for a kind of work) of this server, or read one.",
    arguments=ListSkills,
    output_schema=output_schema(skills="array"),
    run=list_skills,
    reads_only=True,
)
