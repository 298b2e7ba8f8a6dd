"""list_skills: the named ways of working there are."""

from waybook.record.moment import Json
from waybook.usecases.arguments import Reading
from waybook.usecases.call import Body, Call
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RESEARCH, Tool
from waybook.usecases.views import following, told


class ListSkills(Reading):
    pass


async def list_skills(call: Call, _: ListSkills) -> Body:
    """The configured skills, by name."""
    skills: list[Json] = [
        told(
            name=skill.name,
            description=skill.description,
            outputMediaType=skill.output_media_type,
        )
        for skill in call.house.skills
    ]
    return {
        "skills": skills,
        "next": following("start_skill", "start the one that fits, before creating the plan"),
    }


TOOL = Tool(
    name="list_skills",
    title="List skills",
    description="The named ways of working (skills) this server knows.",
    arguments=ListSkills,
    output_schema=output_schema(skills="array"),
    run=list_skills,
    reads_only=True,
    profiles=RESEARCH,
)
