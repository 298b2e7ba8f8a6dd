"""Effect of a flood of requests on the latency of an org's calls.

The server runs in its own process in server mode with default limits: sixty calls per second for
each org. One org completes the steps of a plan, with a short pause between calls. Another process
floods the server: over many connections, it sends requests as fast as it gets answers, and ignores
refusals. There are three kinds of floods: small calls of a second org, calls of the second org with
750 kB of arguments, and requests without sign-in. All traffic is loopback. The number of calls and
the time are limited.

    python benchmarks/flood.py [--calls 300] [--connections 32] [--kinds calls,large,anonymous]
"""

import argparse
import asyncio
import json
import os
import re
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, Self

from limits import Check, finish
from server_process import serving
from waybook.application import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

#: Maximum 99th percentile of the latency during a flood, as a multiple of that without a flood.
LIMIT = 2.0
ROUNDS = 3
PAUSE_SECONDS = 0.02
MAX_SECONDS = 60
MEASURED_ORG, FLOODING_ORG = "measured", "flooding"
KINDS = ("calls", "large", "anonymous")
#: Number of steps of the plan in a large call, so that its arguments are 750 kB long. Waybook
#: refuses a plan with so many steps.
LARGE_STEPS = 13_600


async def waybook(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "waybook", *arguments, "--json", "--data-dir", str(folder)]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    output, _ = await process.communicate()
    assert not process.returncode, arguments
    return dict(json.loads(output))


class Round(NamedTuple):
    """Latencies without and during a flood, answers to the flood, and the server's CPU seconds."""

    alone: list[float]
    during: list[float]
    codes: Counter[str]
    used: float


class Caller:
    """Connection that makes the calls of an org, one after the other."""

    def __init__(self, address: str, token: str) -> None:
        authority = address.removeprefix("http://")
        self.host, _, self.port = authority.partition(":")
        self.head = (
            f"POST /mcp HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {token}\r\n"
            "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
            "mcp-protocol-version: 2025-11-25\r\ncontent-length: "
        )

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self.host, int(self.port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def call(self, tool: str, **arguments: object) -> tuple[str, dict[str, Any]]:
        """Call a tool; return "ok" or the error code, and the body of the answer."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(message)
        status, reply = await self.send(f"{self.head}{len(body)}\r\n\r\n{body}".encode())
        if status != "200":
            return status, {}
        result = json.loads(reply)["result"]
        answer = json.loads(result["content"][0]["text"])
        return (answer["error"]["code"], answer) if result.get("isError") else ("ok", answer)

    async def send(self, request: bytes) -> tuple[str, bytes]:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head)
        assert size, head
        return head.split()[1].decode(), await self.reader.readexactly(int(size[1]))

    async def send_flood_request(self, kind: str) -> str:
        """Send a request of a flood; return "ok", the error code or the HTTP status."""
        if kind == "large":
            steps = [{"stepType": "search", "instructions": "Look it up."}] * LARGE_STEPS
            arguments = {"name": "Rivers", "researchQuestion": "Which?", "steps": steps}
            return (await self.call("create_research_plan", **arguments))[0]
        if kind == "anonymous":
            get = f"GET /sign-in HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n\r\n"
            return (await self.send(get.encode()))[0]
        return (await self.call("list_active_plans"))[0]

    async def list_tools_as(self, token: str) -> str:
        """Ask for the list of tools with this token; return the HTTP status."""
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        head = re.sub(r"Bearer \S+", f"Bearer {token}", self.head)
        return (await self.send(f"{head}{len(message)}\r\n\r\n{message}".encode()))[0]


async def flood(address: str, token: str, connections: int, kind: str) -> None:
    """Send requests until stdin is closed or time is up; print the number of answers by code."""
    codes: Counter[str] = Counter()

    async def call_repeatedly() -> None:
        async with Caller(address, token) as caller:
            while True:
                codes[await caller.send_flood_request(kind)] += 1

    tasks = [asyncio.create_task(call_repeatedly()) for _ in range(connections)]
    await asyncio.wait(
        [asyncio.create_task(asyncio.to_thread(sys.stdin.read)), *tasks],
        timeout=MAX_SECONDS,
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in tasks:
        task.cancel()
    print(json.dumps(codes))


@asynccontextmanager
async def run_flood(
    address: str, token: str, connections: int, kind: str = "calls"
) -> AsyncIterator[Counter[str]]:
    """Run a flood in its own process during the block; yield how many answers had each code.

    The counts are empty until the block ends.
    """
    command = [sys.executable, __file__, "--flood", address, "--connections", str(connections)]
    command += ["--kinds", kind]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env={**os.environ, "FLOOD_TOKEN": token}
    )
    codes: Counter[str] = Counter()
    try:
        yield codes
    finally:
        output, _ = await process.communicate(b"")
        codes.update(json.loads(output or b"{}"))


async def measure_latencies(address: str, token: str, calls: int) -> list[float]:
    """Complete the steps of a new plan; return the milliseconds that each call took."""
    steps = [{"stepType": "search", "instructions": "Look it up."}] * (calls // 2)
    latencies = []
    async with Caller(address, token) as caller:
        arguments = {"name": "Rivers", "researchQuestion": "Which?", "steps": steps}
        plan = await call(caller, "create_research_plan", **arguments)
        for _ in steps:
            started = time.perf_counter()
            step = await call(caller, "get_next_step", planId=plan["planId"])
            latencies.append(time.perf_counter() - started)
            await asyncio.sleep(PAUSE_SECONDS)
            started = time.perf_counter()
            held = {"stepId": step["stepId"], "attempt": step["attempt"]}
            await call(caller, "submit_step_result", **held, resultSummary="found")
            latencies.append(time.perf_counter() - started)
            await asyncio.sleep(PAUSE_SECONDS)
    return [1000 * seconds for seconds in latencies]


async def call(caller: Caller, tool: str, **arguments: object) -> dict[str, Any]:
    code, answer = await caller.call(tool, **arguments)
    assert code == "ok", answer
    return answer


def cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(calls: int, connections: int, kinds: Sequence[str]) -> None:
    """Measure the latency without a flood and during each kind of flood, and compare them."""
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings):  # All server processes use the same database.
            tokens = {org: await create_token(folder, org) for org in (MEASURED_ORG, FLOODING_ORG)}
            async with serving(folder, "--auth", "required") as (address, process):
                await measure_latencies(address, tokens[MEASURED_ORG], 40)  # warm-up
                rounds: dict[str, list[Round]] = {kind: [] for kind in kinds}
                for kind in [*kinds] * ROUNDS:
                    alone = await measure_latencies(address, tokens[MEASURED_ORG], calls)
                    before, token = cpu_seconds(process), tokens[FLOODING_ORG]
                    async with run_flood(address, token, connections, kind) as codes:
                        during = await measure_latencies(address, tokens[MEASURED_ORG], calls)
                    used = cpu_seconds(process) - before
                    rounds[kind].append(Round(alone, during, codes, used))
    report(rounds)


async def create_token(folder: Path, org: str) -> str:
    """Create an org and a user; return a token of the user."""
    await waybook(folder, "org", "add", org)
    await waybook(folder, "user", "add", "ann", "--org", org)
    created = await waybook(folder, "token", "add", "ann", "--label", "flood", "--org", org)
    return str(created["token"])


def report(rounds: dict[str, list[Round]]) -> None:
    print(f"{'latency of one org':28}{'median ms':>10}{'p99 ms':>10}")
    checks = []
    for kind, each in rounds.items():
        for alone, during, codes, used in each:
            print(f"{'without flood':28}{median(alone):10.1f}{p99(alone):10.1f}")
            print(f"{f'with flood: {kind}':28}{median(during):10.1f}{p99(during):10.1f}")
            print(f"{'answers to the flood':28}{dict(codes)}; the server used {used:.1f} s of CPU")
        ratios = [p99(during) / p99(alone) for alone, during, _, _ in each]
        name = f"ratio of p99, flood of {kind}"
        checks.append(Check(name=name, rounds=ratios, direction="<=", limit=LIMIT))
    finish("flood", checks)


def p99(latencies: Sequence[float]) -> float:
    return quantiles(latencies, n=100)[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood:
        token = os.environ["FLOOD_TOKEN"]
        asyncio.run(flood(arguments.flood, token, arguments.connections, arguments.kinds))
    else:
        asyncio.run(main(arguments.calls, arguments.connections, arguments.kinds.split(",")))
