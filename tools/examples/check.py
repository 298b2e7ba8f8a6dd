"""Run the examples for agent frameworks, with scripted models and a real server.

Usage: `check.py WAYBOOK PYTHON`. WAYBOOK is the command that starts the server. PYTHON is the
interpreter that has the frameworks installed. Each example crashes in its second step and is
started again. It must then complete the plan, and every step must be done exactly once.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from script import CRASHED

from waybook.client import Client
from waybook.client.replies import NewStep

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langgraph")
PATHS = ("src", "examples/frameworks", "tools/examples")
STEPS: list[NewStep] = [
    {"stepType": "search", "instructions": "Find rivers."},
    {"stepType": "analyze", "instructions": "Compare rivers."},
    {"stepType": "synthesize", "instructions": "Name a river."},
]
CRASH_WORD = "Compare"
MAX_SECONDS = 300


@contextmanager
def serve(waybook: str) -> Iterator[str]:
    """Start a server with its own embedded database; yield its address."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WAYBOOK_")}
    with tempfile.TemporaryDirectory(prefix="waybook-examples-") as data_dir:
        command = [waybook, "serve", "--port", "0", "--data-dir", data_dir]
        server = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            server.communicate(timeout=MAX_SECONDS)


def run_example(python: str, framework: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example and its scripted model by the interpreter that has the framework."""
    program = ROOT / "tools" / "examples" / f"scripted_{framework}.py"
    paths = os.pathsep.join(str(ROOT / path) for path in PATHS)
    return subprocess.run(
        [python, str(program), *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_SECONDS,
    )


async def check_example(client: Client, python: str, framework: str) -> str | None:
    """Return what is wrong with the result of an example, or None."""
    plan = await client.create_plan(f"Rivers by {framework}", "Which river is longest?", STEPS)
    place = (client.url, plan["planId"])
    crashed = await asyncio.to_thread(run_example, python, framework, *place, CRASH_WORD)
    if crashed.returncode != CRASHED:
        return f"did not crash as scripted: {crashed.stdout}{crashed.stderr}"
    before = await client.call("get_plan_status", planId=plan["planId"])
    finished = await asyncio.to_thread(run_example, python, framework, *place, "")
    if finished.returncode != 0:
        return f"did not finish: {finished.stdout}{finished.stderr}"
    after = await client.call("get_plan_status", planId=plan["planId"], detail=True)
    results = [str(step["resultSummary"]) for step in after["completedSteps"]]
    expected = [f"{step['instructions']}" for step in STEPS]
    checks = {
        "one step done before the crash": before["counts"]["done"] == 1,
        "the crashed step is still held": before["activeSteps"][0]["attempt"] == 1,
        "the plan is completed": after["status"] == "completed",
        "each result answers its step": len(results) == len(STEPS)
        and all(text in result for text, result in zip(expected, results, strict=True)),
        "the second run does two steps": len(finished.stdout.splitlines()) == len(STEPS) - 1,
    }
    failed = [name for name, holds in checks.items() if not holds]
    return f"these checks failed: {failed}; the plan: {after}" if failed else None


async def main(waybook: str, python: str) -> int:
    failures = 0
    with serve(waybook) as address:
        async with Client(address) as client:
            for framework in FRAMEWORKS:
                problem = await check_example(client, python, framework)
                failures += problem is not None
                sys.stdout.write(f"{framework}: {problem or 'passed'}\n")
    return failures


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:3])))
