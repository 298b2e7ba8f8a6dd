"""The server never fetches URLs from stored texts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from org_env import AgentClient, Body, OrgEnv, with_parts
from patience import PATIENCE_SECONDS
from tool_calls import PREPARE, valid_call
from transport.full_app import full_app, make_client
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.skills.loader import read_skills
from waybook.app.tools.plans.skills import InstalledSkills
from waybook.background import index_all_orgs, render_all_orgs, sweep_all_orgs


@dataclass
class Trap:
    """Server on loopback that counts the connections to it."""

    address: str = ""
    visits: int = 0


@asynccontextmanager
async def open_trap() -> AsyncIterator[Trap]:
    trap = Trap()

    async def caught(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trap.visits += 1
        writer.close()

    server = await asyncio.start_server(caught, "127.0.0.1", 0)
    async with server:
        trap.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield trap


def texts(where: str) -> str:
    """Return a text with URLs of every kind that a program might fetch."""
    return "\n\n".join(
        [
            f"http://{where}/plain",
            f"https://{where}/tls",
            f"//{where}/no-scheme",
            f"<http://{where}/autolink>",
            f"[a link](http://{where}/link)",
            f"![an image](http://{where}/image)",
            f"<img src='http://{where}/html'><script src='http://{where}/script'></script>",
            f"<link rel=stylesheet href='http://{where}/style'>",
            f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "http://{where}/dtd">]><a>&b;</a>',
            f'{{"$ref": "http://{where}/schema", "@import": "http://{where}/import"}}',
            f"@import url(http://{where}/css);",
            f"!include http://{where}/yaml",
        ]
    )


def with_text_everywhere(value: object, text: str, name: str = "") -> object:
    """Return a copy of the arguments with this text, or its first URL, in every text field."""
    if isinstance(value, dict):
        return {key: with_text_everywhere(inner, text, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_text_everywhere(inner, text, name) for inner in value]
    if name in {"url", "name", "title"} and isinstance(value, str):
        return text.split(maxsplit=1)[0]
    if isinstance(value, str) and name in PROSE:
        return text
    return value


PROSE = {
    *("name", "title", "researchQuestion", "instructions", "outputFormattingNotes", "summary"),
    *("questions", "feedback", "modificationRationale", "reason", "error", "outcome", "content"),
    *("text", "quote", "resultSummary", "river", "sources", "input", "question", "query", "prompt"),
    *("description", "label", "conditionExpression"),
}


async def test_server_never_requests_a_url_from_a_submitted_text(
    world: OrgEnv, tmp_path: Path
) -> None:
    async with open_trap() as trap:
        text = texts(trap.address)
        agent = with_skill(world.agent, tmp_path, text)
        assert await written(agent, text) > len(PREPARE)
        schema = {"$ref": f"http://{trap.address}/schema", "$schema": f"http://{trap.address}/"}
        await agent.ask("extract_data", {"text": text, "schema": schema, "candidate": {}})
        plan = await agent.plan(1, name=text.split(maxsplit=1)[0], researchQuestion=text)
        result = {"found": text, "url": f"http://{trap.address}/result"}
        await agent.submit(await agent.take(plan), result)
        await run_tasks_and_load_pages(agent, plan)
        assert trap.visits == 0
        await visit(trap)


async def written(agent: AgentClient, text: str) -> int:
    """Call every tool with arguments that contain this text; return how many calls succeeded."""
    taken = 0
    for tool in PREPARE:
        args = await valid_call(agent, tool)
        for arguments in (
            {n: with_text_everywhere(v, text, n) for n, v in args.items()},
            *with_text_in_each_argument(args, text),
        ):
            taken += not (await agent.ask(tool, arguments)).is_error
    return taken


async def run_tasks_and_load_pages(agent: AgentClient, plan: Body) -> None:
    for at_work in (render_all_orgs, index_all_orgs, sweep_all_orgs):
        await at_work(agent.dispatcher.services)
    async with make_client(full_app(agent)) as client:
        for page in ("/", "/inbox", "/runs", "/dags", "/outputs", f"/plans/{plan['planId']}"):
            assert (await client.get(page)).status_code == 200


async def visit(trap: Trap) -> None:
    """Connect to the server of `trap`, and wait until it has counted the connection."""
    host, _, port = trap.address.partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not trap.visits:  # noqa: ASYNC110 - no event tells when it was counted
            await asyncio.sleep(0)


def with_text_in_each_argument(args: Body, text: str) -> list[Body]:
    """Return copies of the arguments, each with the text in another argument."""
    return [
        {**args, name: with_text_everywhere(value, text, name)}
        for name, value in args.items()
        if with_text_everywhere(value, text, name) != value
    ]


def with_skill(agent: AgentClient, folder: Path, text: str) -> AgentClient:
    """Return an agent whose server has a skill that contains this text."""
    (folder / "survey").mkdir()
    head = f"---\nname: survey\ndescription: See {text.split(maxsplit=1)[0]}\n---\n"
    (folder / "survey" / "SKILL.md").write_text(head + text, encoding="utf-8")
    skills = read_skills(str(folder))
    assert [skill for skill in skills if text.split(maxsplit=1)[0] in skill.body]
    services = with_parts(agent.dispatcher.services, InstalledSkills(skills))
    return AgentClient(ServerDispatcher(services, agent.dispatcher.calls), agent.caller)
