"""Skills over MCP: the skills extension, and the files of skills as resources."""

from base64 import b64decode
from hashlib import sha256
from typing import Any, Literal

import pytest
import yaml
from mcp import Client, MCPError
from mcp_types import BlobResourceContents, Request, TextResourceContents
from pydantic import BaseModel, ConfigDict

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, any_caller, make_server
from waybook.app.skills.loader import parse_skill, read_skills
from waybook.app.skills.skill import Skill, SkillFile
from waybook.errors import Unavailable
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.resources import SKILLS_EXTENSION as EXTENSION
from waybook.transport.mcp.server import build_server

Era = Literal["legacy", "auto", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
HEAD = "---\nname: a-skill\ndescription: Does it.\nmetadata:\n  made: 2030-01-01\n---\nDo it."


def make_skill(**files: bytes) -> Skill:
    read = parse_skill(HEAD, "a-skill")
    own = (SkillFile("SKILL.md", HEAD.encode()),)
    return Skill(
        name=read.name,
        description=read.description,
        body=read.body,
        front_matter=read.front_matter,
        files=(*own, *(SkillFile(path, content) for path, content in files.items())),
    )


MANY = make_skill(
    **{
        "assets/logo.png": b"\x89PNG\xff",
        "references/deep/more.md": b"# More",
        "references/one file.md": "Snow ☃".encode(),
        "scripts/run": b"echo",
        "strange": b"\xff",
    }
)


def make_client(*skills: Skill, era: Era = "2026-07-28", profile: str = "research") -> Client:
    dispatcher = RecordingDispatcher(skills=skills)
    return Client(make_server(dispatcher, profile=profile), mode=era)


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
    request = Request[dict[str, object], str](method=method, params=params)
    answer = await client.session.send_request(request, Anything)
    return answer.model_dump()


async def test_newer_client_sees_skills_extension_only_if_profile_has_skills() -> None:
    async with make_client(MANY, era="auto") as client:
        declared = client.server_capabilities.extensions or {}
        assert declared[EXTENSION] == {"directoryRead": True}
        assert client.server_capabilities.resources is not None
    async with make_client(MANY, era="auto", profile="runs") as client:
        assert EXTENSION not in (client.server_capabilities.extensions or {})
    async with make_client(MANY, era="legacy") as client:
        assert client.server_capabilities.extensions is None


@BOTH_ERAS
async def test_list_of_skills_has_frontmatter_and_resources_of_every_skill(era: Era) -> None:
    async with make_client(*read_skills(""), MANY, era=era) as client:
        reply = await ask(client, "skills/list")
        assert (reply["ttlMs"], reply["cacheScope"]) == (300_000, "public")
        assert [skill["frontmatter"]["name"] for skill in reply["skills"]] == [
            "deep-research",
            "quick-scan",
            "a-skill",
        ]
        for skill in reply["skills"]:
            assert skill["uri"] == skill["resources"][0]["uri"]
            assert skill["uri"] == f"skill://{skill['frontmatter']['name']}/SKILL.md"
            got = await ask(client, "skills/get", uri=skill["uri"])
            assert got["skill"] == skill
            assert (got["ttlMs"], got["cacheScope"]) == (300_000, "public")


@BOTH_ERAS
async def test_skill_resource_has_the_listed_size_and_digest(era: Era) -> None:
    async with make_client(*read_skills(""), MANY, era=era) as client:
        for skill in (await ask(client, "skills/list"))["skills"]:
            for resource in skill["resources"]:
                (read,) = (await client.read_resource(resource["uri"])).contents
                content = bytes_of(read)
                assert len(content) == resource["size"]
                assert f"sha256:{sha256(content).hexdigest()}" == resource["digest"]
            (read,) = (await client.read_resource(skill["uri"])).contents
            head = yaml.load(bytes_of(read).split(b"---")[1], yaml.BaseLoader)  # noqa: S506 - this loader creates only texts
            assert head == skill["frontmatter"]
            assert read.mime_type == "text/markdown"


def bytes_of(read: TextResourceContents | BlobResourceContents) -> bytes:
    return b64decode(read.blob) if isinstance(read, BlobResourceContents) else read.text.encode()


async def test_media_type_of_skill_file_depends_on_name_and_content() -> None:
    kinds = {
        "assets/logo.png": "image/png",
        "references/one%20file.md": "text/markdown",
        "scripts/run": "text/plain",
        "strange": "application/octet-stream",
    }
    async with make_client(MANY) as client:
        for path, kind in kinds.items():
            (read,) = (await client.read_resource(f"skill://a-skill/{path}")).contents
            assert read.mime_type == kind


async def test_reading_a_skill_directory_lists_only_the_direct_children() -> None:
    async with make_client(MANY) as client:
        root = await children(client, "skill://a-skill")
        assert root == [
            ("skill://a-skill/SKILL.md", "SKILL.md", "text/markdown"),
            ("skill://a-skill/assets", "assets", "inode/directory"),
            ("skill://a-skill/references", "references", "inode/directory"),
            ("skill://a-skill/scripts", "scripts", "inode/directory"),
            ("skill://a-skill/strange", "strange", "application/octet-stream"),
        ]
        assert await children(client, "skill://a-skill/references") == [
            ("skill://a-skill/references/deep", "deep", "inode/directory"),
            ("skill://a-skill/references/one%20file.md", "one file.md", "text/markdown"),
        ]
        assert await children(client, "skill://a-skill/references/deep") == [
            ("skill://a-skill/references/deep/more.md", "more.md", "text/markdown")
        ]


async def children(client: Client, uri: str) -> list[tuple[str, str, str]]:
    reply = await ask(client, "resources/directory/read", uri=uri)
    return [
        (resource["uri"], resource["name"], resource["mimeType"]) for resource in reply["resources"]
    ]


@BOTH_ERAS
@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://nope/SKILL.md"),
        ("skills/get", "skill://a-skill/strange"),
        ("skills/get", "skill://a-skill"),
        ("resources/directory/read", "skill://a-skill/SKILL.md"),
        ("resources/directory/read", "skill://a-skill/"),
        ("resources/directory/read", "skill://a-skill/nope"),
        ("resources/directory/read", "skill://a"),
        ("resources/directory/read", "waybook://plans"),
        ("resources/read", "skill://a-skill/nope"),
        ("resources/read", "skill://a-skill/references/../SKILL.md"),
        ("resources/read", "skill://a-skill/references/one file.md"),
        ("resources/read", "skill://a-skill/%2e%2e/%2e%2e/etc/passwd"),
        ("resources/read", "skill://a-skill"),
        ("resources/read", "skill://"),
    ],
)
async def test_unknown_uri_of_a_skill_returns_an_invalid_params_error(
    era: Era, method: str, uri: str
) -> None:
    async with make_client(MANY, era=era) as client:
        with pytest.raises(MCPError) as refusal:
            await ask(client, method, uri=uri)
    assert refusal.value.code == -32602


async def test_skills_are_listed_as_resources_only_if_profile_has_skills() -> None:
    async with make_client(MANY) as client:
        listed = (await client.list_resources()).resources
    (skill,) = [resource for resource in listed if resource.uri.startswith("skill:")]
    assert (skill.name, skill.description) == ("a-skill", "Does it.")
    async with make_client(MANY, profile="runs") as client:
        listed = (await client.list_resources()).resources
        assert not [resource for resource in listed if resource.uri.startswith("skill:")]
        with pytest.raises(MCPError) as unread:
            await client.read_resource("skill://a-skill/SKILL.md")
        with pytest.raises(MCPError) as unknown:
            await ask(client, "skills/list")
    assert (unread.value.code, unknown.value.code) == (-32602, -32601)


async def test_list_of_skills_returns_an_error_if_database_is_unavailable() -> None:
    async def shut() -> RecordingDispatcher:
        raise Unavailable

    server = build_server(TOOLS, ToolGateway(shut, any_caller), profile="research")
    async with Client(server) as client:
        with pytest.raises(MCPError) as refusal:
            await ask(client, "skills/list")
    assert refusal.value.code == -32603
    assert refusal.value.data["error"]["code"] == "UNAVAILABLE"
