"""Replies of `list_skills`: all skills, one skill, or a file of a skill."""

from json import dumps

import pytest

from org_env import AgentClient, OrgEnv, with_parts
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.skills.loader import read_skills
from waybook.app.skills.skill import Skill, SkillFile
from waybook.app.tools.plans.skills import InstalledSkills


def agent_with_skills(world: OrgEnv, *skills: Skill) -> AgentClient:
    """Return an agent whose server has these skills."""
    services = with_parts(world.dispatcher.services, InstalledSkills(skills))
    return AgentClient(ServerDispatcher(services, world.dispatcher.calls), world.agent.caller)


def make_skill(name: str = "a-skill", **files: bytes) -> Skill:
    skill_files = tuple(SkillFile(path, content) for path, content in files.items())
    return Skill(name=name, description="x" * 1_024, body="Do it.", files=skill_files)


async def test_list_skills_returns_one_hundred_skills_within_size_limit(world: OrgEnv) -> None:
    agent = agent_with_skills(world, *(make_skill(f"{'skill-' * 10}{n:03}") for n in range(100)))
    reply = await agent.call("list_skills")
    assert len(reply["skills"]) == 100
    assert len(dumps(reply)) < 48_000
    assert all(skill["description"].endswith(" …") for skill in reply["skills"])


async def test_list_skills_with_a_name_lists_files_of_that_skill(world: OrgEnv) -> None:
    agent = agent_with_skills(world, *read_skills(""))
    reply = await agent.call("list_skills", name="deep-research")
    (skill,) = reply["skills"]
    assert skill["files"] == ["references/judging-sources.md"]
    assert reply["next"]["args"] == {"name": "deep-research"}


async def test_list_skills_returns_text_of_skill_file(world: OrgEnv) -> None:
    agent = agent_with_skills(world, *read_skills(""))
    args = {"name": "deep-research", "file": "references/judging-sources.md"}
    reply = await agent.call("list_skills", **args)
    assert reply["file"]["path"] == "references/judging-sources.md"
    assert reply["file"]["text"].startswith("# Judging sources")
    started = await agent.call("start_skill", name="deep-research", sessionId="s")
    assert started["files"] == ["references/judging-sources.md"]


async def test_list_skills_cuts_long_file_and_returns_resource_uri(world: OrgEnv) -> None:
    agent = agent_with_skills(world, make_skill(long="☃".encode() * 50_000))
    reply = await agent.call("list_skills", name="a-skill", file="long")
    assert len(dumps(reply, ensure_ascii=False).encode()) < 48_000
    assert reply["file"]["left"] == 50_000 - len(reply["file"]["text"])
    assert reply["file"]["resource"] == "skill://a-skill/long"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "nope"}, "NOT_FOUND"),
        ({"file": "x"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "nope"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "../a-skill/x"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "/etc/passwd"}, "NOT_FOUND"),
        ({"name": "a-skill", "file": "bytes"}, "INVALID_INPUT"),
    ],
)
async def test_list_skills_refuses_unknown_or_unreadable_skills_and_files(
    world: OrgEnv, asked: dict[str, str], code: str
) -> None:
    agent = agent_with_skills(world, make_skill(bytes=b"\xff"))
    assert (await agent.refused("list_skills", **asked))["code"] == code
