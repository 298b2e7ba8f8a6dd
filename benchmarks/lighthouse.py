"""Lighthouse scores of the page of a plan and of a run.

Lighthouse is not installed with Waybook: run `npm install lighthouse`, and pass the path of its
program. The performance score depends on the machine, so it is only meaningful on an idle machine.

    python benchmarks/lighthouse.py node_modules/.bin/lighthouse
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from mcp import Client

from browsers import find_chromium
from server_process import serving
from waybook.cli.demo.environment import temporary_database

STEPS = 60
#: Minimum score of each category in percent.
TARGETS = {"accessibility": 100, "best-practices": 100, "performance": 95}
FLAGS = "--headless --no-sandbox --disable-gpu"


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def make_plan(agent: Client) -> str:
    """Create a plan with some completed steps; return the path of its page."""
    steps = [
        {"stepType": "search", "title": f"Source {n}", "instructions": "Look it up."}
        for n in range(STEPS)
    ]
    arguments = {"name": "Rivers", "researchQuestion": "Which is longest?", "steps": steps}
    plan = await call(agent, "create_research_plan", **arguments)
    for _ in range(STEPS // 4):
        step = await call(agent, "get_next_step", planId=plan["planId"])
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        await call(agent, "submit_step_result", **held, resultSummary="found")
    return f"/plans/{plan['planId']}"


async def make_run(agent: Client) -> str:
    """Start a run of a built-in workflow; return the path of its page."""
    arguments = {"name": "Proposals", "dagSlug": "dialectic", "input": "A lighthouse."}
    run = await call(agent, "start_run", **arguments, models=["a", "b", "c"])
    return f"/runs/{run['runId']}"


async def scores(program: str, url: str) -> dict[str, int]:
    options = ("--quiet", "--output=json", "--preset=desktop", f"--chrome-flags={FLAGS}")
    process = await asyncio.create_subprocess_exec(
        program,
        url,
        *options,
        f"--only-categories={','.join(TARGETS)}",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "CHROME_PATH": find_chromium() or ""},
    )
    output, _ = await process.communicate()
    report = json.loads(output)
    for name, audit in report["audits"].items():
        if audit.get("score") is not None and audit["score"] < 1:
            print(f"  {name}: {audit['score']} {audit.get('displayValue', '')}")
    return {name: round(100 * report["categories"][name]["score"]) for name in TARGETS}


async def main(program: str) -> None:
    """Print the scores of both pages; raise AssertionError if a score is too low."""
    too_low = []
    with temporary_database() as folder:
        async with (
            serving(Path(folder), "--tools", "all") as (address, _),
            Client(f"{address}/mcp") as agent,
        ):
            for make in (make_plan, make_run):
                measured = await scores(program, address + await make(agent))
                print(make.__name__.removeprefix("make_"), measured)
                too_low += [name for name in TARGETS if measured[name] < TARGETS[name]]
    assert not too_low, f"scores below the target: {too_low}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program", help="path of the program lighthouse")
    asyncio.run(main(parser.parse_args().program))
