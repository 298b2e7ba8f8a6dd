"""Many agents on one plan, over HTTP, against a server in a separate process."""

import asyncio
import json

import pytest
from mcp import Client
from mcp_types import TextContent

from postgres_servers import Server, new_database
from preloaded_process import open_serve
from waybook.json_values import Json


async def call(client: Client, tool: str, **arguments: Json) -> dict[str, Json]:
    result = await client.call_tool(tool, arguments)
    content = result.content[0]
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    body: dict[str, Json] = json.loads(content.text)
    return body


async def work(url: str, plan_id: Json, name: str, barrier: asyncio.Barrier) -> tuple[Json, Json]:
    async with Client(url) as client:
        await barrier.wait()
        ready = await call(client, "get_next_step", planId=plan_id, sessionId=name)
        assert ready["status"] == "step_ready"
        await barrier.wait()
        step = {"stepId": ready["stepId"], "attempt": ready["attempt"]}
        done = await call(
            client, "submit_step_result", resultSummary=f"by {name}", sessionId=name, **step
        )
        return ready["stepOrder"], done["stepStatus"]


@pytest.mark.parametrize("count", [8, pytest.param(64, marks=pytest.mark.load)])
async def test_each_of_many_agents_claims_and_completes_a_different_step(
    eighteen: Server, count: int
) -> None:
    with (
        new_database(eighteen) as place,
        open_serve(WAYBOOK_DATABASE_URL=place.app_dsn) as (_, address),
    ):
        url = f"{address}/mcp"
        async with Client(url) as client:
            steps: list[Json] = [
                {"stepType": "custom", "instructions": f"Piece {n} of {count}."}
                for n in range(1, count + 1)
            ]
            plan = await call(
                client, "create_research_plan", name="Many hands", researchQuestion="?", steps=steps
            )
            barrier = asyncio.Barrier(count)
            agents = (work(url, plan["planId"], f"agent-{n}", barrier) for n in range(1, count + 1))
            taken = await asyncio.gather(*agents)
            status = await call(client, "get_plan_status", planId=plan["planId"])
            context = await call(
                client, "get_research_context", planId=plan["planId"], since=0, detail=True
            )
    assert {order for order, _ in taken} == set(range(1, count + 1))
    assert {outcome for _, outcome in taken} == {"completed"}
    assert (status["status"], status["progress"]) == ("completed", 100)
    assert status["counts"] == {"done": count, "total": count}
    events = context["recentEvents"]
    assert isinstance(events, list)
    assert [event["seq"] for event in events if isinstance(event, dict)] == list(
        range(1, len(events) + 1)
    )
    names = [event["event"] for event in events if isinstance(event, dict)]
    assert names.count("step_started") == names.count("step_completed") == count
