"""list_skills: as a list, a single one, or one of its files."""

from dataclasses import replace
from json import dumps

import pytest

from waybook.app.dispatcher import Dispatcher
from waybook.app.skills.loader import read_skills
from waybook.app.skills.skill import Skill, SkillFile
from worlds import Agent, World


def knowing(world: World, *skills: Skill) -> Agent:
    """Return Ann, in an application with these skills."""
    services = replace(world.doorway.house, skills=skills)
    return Agent(Dispatcher(services, world.doorway.calls), world.agent.caller)


def a_skill(name: str = "a-skill", **files: bytes) -> Skill:
    told = tuple(SkillFile(path, content) for path, content in files.items())
    return Skill(name=name, description="x" * 1_024, body="Do it.", files=told)


async def test_a_hundred_skills_fit_a_reply(world: World) -> None:
    agent = knowing(world, *(a_skill(f"{'skill-' * 10}{n:03}") for n in range(100)))
    told = await agent.call("list_skills")
    assert len(told["skills"]) == 100
    assert len(dumps(told)) < 48_000
    assert all(one["description"].endswith(" …") for one in told["skills"])


async def test_one_skill_is_shown_whole_with_its_files(world: World) -> None:
    agent = knowing(world, *read_skills(""))
    told = await agent.call("list_skills", name="deep-research")
    (one,) = told["skills"]
    assert one["files"] == ["references/judging-sources.md"]
    assert told["next"]["args"] == {"name": "deep-research"}


async def test_a_file_of_a_skill_is_read(world: World) -> None:
    agent = knowing(world, *read_skills(""))
    asked = {"name": "deep-research", "file": "references/judging-sources.md"}
    told = await agent.call("list_skills", **asked)
    assert told["file"]["path"] == "references/judging-sources.md"
    assert told["file"]["text"].startswith("# Judging sources")
    started = await agent.call("start_skill", name="deep-research", sessionId="s")
    assert started["files"] == ["references/judging-sources.md"]


async def test_a_long_file_is_cut_and_says_where_the_rest_is(world: World) -> None:
    agent = knowing(world, a_skill(long="☃".encode() * 50_000))
    told = await agent.call("list_skills", name="a-skill", file="long")
    assert len(dumps(told, ensure_ascii=False).encode()) < 48_000
    assert told["file"]["left"] == 50_000 - len(told["file"]["text"])
    assert told["file"]["resource"] == "skill://a-skill/long"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "nope"}, "NOT_FOUND"),
        ({"file": "x"}, "INVALID_INPUT"),
        ({"name": "a-skill", "file": "nope"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "../a-skill/x"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "/etc/passwd"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "bytes"}, "INVALID_INPUT"),
    ],
)
async def test_what_is_not_there_is_refused_by_name(
    world: World, asked: dict[str, str], code: str
) -> None:
    agent = knowing(world, a_skill(bytes=b"\xff"))
    assert (await agent.refused("list_skills", **asked))["code"] == code
