"""CPU time of tool calls over MCP and HTTP, compared with the MCP library alone.

Each server runs in its own process, and all are measured in turn: the MCP library with tools that
return a fixed reply (`mcp_library_server.py`), and Waybook without and with a token. A cycle is two
calls: a claim and a submission. Several connections send calls at the same time. Only the CPU time
of the server process is compared. The printed rates also depend on the CPU time of PostgreSQL and
of the callers.

    python benchmarks/mcp_http.py [--cycles 1600] [--rounds 3]
"""

import argparse
import asyncio
import os
import re
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

from flood import Caller, call, cpu_seconds, create_token
from limits import Check, finish
from server_process import serving
from waybook.application import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

CONNECTIONS = 8
STEPS = 10
#: CPU time to claim and submit a step with the MCP library alone, as a fraction of Waybook's:
#: minimum, and goal.
MIN_RATIO = 0.8
GOAL = 0.9
#: Growth of the CPU time if calls have a token, as a fraction of the CPU time of calls without a
#: token: maximum, and goal.
MAX_TOKEN_SHARE = 0.1
TOKEN_GOAL = 0.1
LIBRARY = Path(__file__).with_name("mcp_library_server.py")
ORG = "measured"
INSTRUCTIONS = "Read the three newest sources and note where they disagree. " * 4
RESULT = '{"findings": "Three sources agree; one is older than the rest.", "sources": [1, 2, 3]}'

#: Function that makes a number of cycles (claim and submit) on one connection.
Work: TypeAlias = Callable[[Caller, str, int], Awaitable[None]]


class Measured(NamedTuple):
    """CPU milliseconds of the server per cycle (claim and submit), and cycles per second."""

    cpu_ms: float
    rate: float


async def work_with_fixed_replies(caller: Caller, name: str, cycles: int) -> None:
    """Call the tools of the server that uses only the MCP library."""
    for number in range(cycles):
        common = {"sessionId": name, "idempotencyKey": f"{name}-{number}"}
        await call(caller, "get_next_step", planId="9y79wg3e8x", **common)
        held = {"stepId": "9y79wg3e8x", "attempt": 1, "resultSummary": RESULT}
        await call(caller, "submit_step_result", **held, **common)


async def work_on_plans(caller: Caller, name: str, cycles: int) -> None:
    """Create plans, then claim and submit all of their steps."""
    steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * STEPS
    for plan_number in range(cycles // STEPS):
        arguments = {"name": "b", "researchQuestion": "How fast?", "steps": steps}
        plan = await call(caller, "create_research_plan", **arguments)
        for number in range(STEPS):
            common = {"sessionId": name, "idempotencyKey": f"{name}-{plan_number}-{number}"}
            step = await call(caller, "get_next_step", planId=plan["planId"], **common)
            held = {"stepId": step["stepId"], "attempt": step["attempt"]}
            result = {"resultSummary": RESULT, "confidence": 0.8}
            await call(caller, "submit_step_result", **held, **result, **common)


async def measure(
    address: str, process: int, token: str, work: Work, name: str, cycles: int
) -> Measured:
    """Claim and submit steps on several connections, and measure the server process."""
    each = max(STEPS, cycles // CONNECTIONS)
    callers = [Caller(address, token) for _ in range(CONNECTIONS)]
    for caller in callers:
        await caller.__aenter__()
    cpu, started = cpu_seconds(process), time.perf_counter()
    await asyncio.gather(*(work(c, f"{name}-{n}", each) for n, c in enumerate(callers)))
    used, seconds = cpu_seconds(process) - cpu, time.perf_counter() - started
    for caller in callers:
        await caller.__aexit__()
    done = each * CONNECTIONS
    return Measured(1000 * used / done, done / seconds)


@asynccontextmanager
async def serving_library() -> AsyncIterator[tuple[str, int]]:
    """Start the server that uses only the MCP library; yield its address and process id."""
    process = await asyncio.create_subprocess_exec(sys.executable, str(LIBRARY), stdout=PIPE)
    assert process.stdout
    try:
        line = await process.stdout.readline()
        found = re.search(rb"http://[0-9.]+:[0-9]+", line)
        assert found, line
        yield found[0].decode(), process.pid
    finally:
        process.terminate()
        await process.communicate()


async def main(cycles: int, rounds: int) -> None:
    """Measure the three servers in turn; do not count the first round."""
    results: dict[str, list[Measured]] = {}
    os.environ["WAYBOOK_CALLS_PER_SECOND"] = "0"  # 0 turns the rate limit off.
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings):  # All server processes use the same database.
            token = await create_token(folder, ORG)
            async with (
                serving_library() as library,
                serving(folder) as local,
                serving(folder, "--auth", "required") as team,
            ):
                servers: dict[str, tuple[tuple[str, int], str, Work]] = {
                    "MCP library, fixed replies": (library, "", work_with_fixed_replies),
                    "Waybook": (local, "", work_on_plans),
                    "Waybook with a token": (team, token, work_on_plans),
                }
                for turn in range(rounds + 1):
                    for name, (server, secret, work) in servers.items():
                        measured = await measure(*server, secret, work, str(turn), cycles)
                        if turn:
                            results.setdefault(name, []).append(measured)
    report(results)


def report(results: dict[str, list[Measured]]) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    print(f"{'step cycle over MCP and HTTP':34}{'CPU ms/cycle':>14}{'cycles/s':>10}")
    cpu = {name: median(measured.cpu_ms for measured in all_) for name, all_ in results.items()}
    for name, all_ in results.items():
        print(f"{name:34}{cpu[name]:14.2f}{median(one.rate for one in all_):10.0f}")
    turns = list(zip(*results.values(), strict=True))
    ratio = Check(
        name="library : Waybook",
        rounds=[library.cpu_ms / local.cpu_ms for library, local, _ in turns],
        limit=MIN_RATIO,
        goal=GOAL,
    )
    share = Check(
        name="share that a token adds",
        rounds=[team.cpu_ms / local.cpu_ms - 1 for _, local, team in turns],
        direction="<=",
        limit=MAX_TOKEN_SHARE,
        goal=TOKEN_GOAL,
    )
    rates = {name: median(measured.rate for measured in all_) for name, all_ in results.items()}
    finish("mcp_http", [ratio, share], cpuMs=cpu, rates=rates)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.cycles, arguments.rounds))
