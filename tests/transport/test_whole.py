"""The whole house, through its faces: real clients, the real doorway, a real database."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Literal

import httpx2
import pytest
import pytest_asyncio
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent
from starlette.requests import Request

from postgres.places import a_place
from transport.messages import LEGACY
from transport.test_garbage import NOT_JSON, STRANGE, keeps_silent
from waybook.doorway import TOOLS, Caller, Channel, Doorway
from waybook.settings import Settings
from waybook.transport.entrance import Entrance
from waybook.transport.mcp.server import build_server
from waybook.transport.web.app import build_app
from waybook.transport.web.figures import figures
from waybook.transport.web.hosts import Hosts
from waybook.transport.web.serving import listen, serving
from waybook.wiring import running

pytestmark = pytest.mark.asyncio(loop_scope="module")

Era = Literal["legacy", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

PLAN = {
    "name": "Tides",
    "researchQuestion": "Why are there two tides a day?",
    "steps": '[{"stepType":"search","instructions":"Find out."}]',
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    """Everything there is, on a port of its own."""
    with a_place() as place:
        settings = Settings(data_dir=place / "data", sweep_seconds=0)
        async with running(settings) as system:

            async def doorway() -> Doorway:
                return system.doorway

            async def caller(_: Request | None) -> Caller:
                return system.caller(Channel.MCP)

            entrance = Entrance(doorway, caller)
            server = build_server(TOOLS, entrance, profile="all")
            counted = partial(figures, system.doorway)
            app = build_app(server, hosts=Hosts(), ready=entrance.answers, metrics=counted)
            async with serving(app, listen("127.0.0.1", 0)) as where:
                yield where


def error_of(result: CallToolResult) -> dict[str, object]:
    """The error of a result that has one, and nothing beside it."""
    assert result.is_error
    assert result.structured_content is None
    [block] = result.content
    assert isinstance(block, TextContent)
    body = json.loads(block.text)
    assert block.text == json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    assert set(body["error"]) == {"code", "message", "details", "next"}
    return dict(body["error"])


@BOTH_ERAS
async def test_a_plan_goes_from_its_question_to_its_end(address: str, era: Era) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        plan = (await client.call_tool("create_research_plan", dict(PLAN))).structured_content
        assert plan is not None
        uris = {one.uri for one in (await client.list_resources()).resources}
        assert f"waybook://plans/{plan['planId']}" in uris
        read = await client.read_resource(f"waybook://plans/{plan['planId']}")
        assert "Why are there two tides a day?" in read.model_dump_json()
        step = (
            await client.call_tool("get_next_step", {"planId": plan["planId"]})
        ).structured_content
        assert step is not None
        submitted = await client.call_tool(
            "submit_step_result",
            {"stepId": step["stepId"], "attempt": step["attempt"], "resultSummary": "The moon."},
        )
        assert submitted.structured_content is not None
        assert submitted.structured_content["planStatus"] == "completed"


@BOTH_ERAS
async def test_every_tool_answers_to_nothing_by_name(address: str, era: Era) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        for name, tool in TOOLS.items():
            result = await client.call_tool(name, {"noSuchArgument": 1})
            error = error_of(result)
            assert error["code"] == "INVALID_INPUT", name
            assert "noSuchArgument" in str(error["message"]) + str(error["details"]), name
            if not tool.input_schema.get("required"):
                assert not (await client.call_tool(name, {})).is_error, name


@BOTH_ERAS
async def test_a_plan_that_is_not_there_is_not_found(address: str, era: Era) -> None:
    missing = "01980000-0000-7000-8000-000000000000"
    async with Client(f"{address}/mcp", mode=era) as client:
        result = await client.call_tool("get_next_step", {"planId": missing})
        assert error_of(result)["code"] == "NOT_FOUND"
        for plan_id in (missing, "nonsense"):
            with pytest.raises(MCPError) as refusal:
                await client.read_resource(f"waybook://plans/{plan_id}")
            assert refusal.value.code == -32602


@BOTH_ERAS
async def test_skills_are_prompts_and_plans_can_be_completed_by_name(
    address: str, era: Era
) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        skills = (await client.call_tool("list_skills", {})).structured_content
        prompts = [one.name for one in (await client.list_prompts()).prompts]
    assert skills is not None
    assert prompts == ["resume_plan", "plan_research", *(one["name"] for one in skills["skills"])]


async def test_the_server_is_ready_when_its_database_answers(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}


@pytest.mark.parametrize("corpus", [NOT_JSON, STRANGE], ids=["not json", "strange"])
async def test_garbage_leaves_the_house_standing(address: str, corpus: dict[str, bytes]) -> None:
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
        for name, body in corpus.items():
            reply = await client.post("/mcp", headers=LEGACY, content=body)
            assert reply.status_code < 500, name
            assert keeps_silent(reply), name
            assert '"code":-32603' not in reply.text, name


async def test_calls_are_counted_by_tool_and_outcome(address: str) -> None:
    async with Client(f"{address}/mcp") as client, httpx2.AsyncClient() as http:
        await client.call_tool("get_plan_status", {"planId": "nobody"})
        told = (await http.get(f"{address}/metrics")).text
    assert 'waybook_calls_total{tool="get_plan_status",outcome="NOT_FOUND"}' in told
    assert "waybook_call_log_dropped_total 0" in told
