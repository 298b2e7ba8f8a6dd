"""Plan and run completed by an MCP client through `waybook mcp` on the embedded database."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from embedded_postgres.data_directories import make_data_directory
from patience import PATIENCE_SECONDS
from run_place import run_directory


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Yield a path for a data directory; stop its database server after the test."""
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


def waybook_mcp(data_dir: Path) -> StdioServerParameters:
    """Return the parameters that start `waybook mcp` with all tools."""
    arguments = ["-m", "waybook", "mcp", "--data-dir", str(data_dir), "--tools", "all"]
    environment = {**os.environ, "WAYBOOK_CONFIG": str(data_dir / "none.toml")}
    return StdioServerParameters(command=sys.executable, args=arguments, env=environment)


async def call(client: Client, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_plan_and_run_can_be_completed_over_mcp(data_dir: Path) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), Client(waybook_mcp(data_dir)) as client:
        await work_on_a_plan(client)
        await work_on_a_run(client)


async def work_on_a_plan(client: Client) -> None:
    """Create a plan, submit a result, request a review, and complete the plan."""
    steps = [
        {"stepType": "search", "instructions": "Find the rivers."},
        {"stepType": "checkpoint", "instructions": "Show the list."},
    ]
    plan = await call(
        client, "create_research_plan", name="Rivers", researchQuestion="Which?", steps=steps
    )
    named = {"planId": plan["planId"]}
    step = await call(client, "get_next_step", **named)
    assert (step["status"], step["instructions"]) == ("step_ready", "Find the rivers.")
    holder = {"stepId": step["stepId"], "attempt": step["attempt"]}
    submitted = await call(client, "submit_step_result", **holder, resultSummary={"rivers": 2})
    assert submitted["progress"] == {"percent": 50, "done": 1, "total": 2}

    shown = await call(client, "get_next_step", **named)
    await call(client, "request_user_review", stepId=shown["stepId"], summary="Two rivers.")
    assert (await call(client, "get_next_step", **named))["status"] == "awaiting_review"
    await call(client, "submit_user_decision", **named, decision="approve")
    status = await call(client, "get_plan_status", **named)
    assert (status["status"], status["progress"]) == ("completed", 100)


async def work_on_a_run(client: Client) -> None:
    """Start a run, submit the result of a job, and read the report of the run."""
    question = {"name": "Rivers", "input": "Which river is longest?"}
    run = await call(client, "start_run", dagSlug="deep-research", models=["a"], **question)
    job = await call(client, "get_next_job", runId=run["runId"])
    assert job["status"] == "job_ready"
    holder = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await call(client, "submit_job_result", **holder, documents=[{"content": "# Found"}])
    report = await call(client, "get_run_progress", runId=run["runId"], detail=True)
    steps = {step["stepKey"]: step for step in report["stages"][0]["steps"]}
    assert steps[job["stepKey"]]["jobs"]["done"] == 1
