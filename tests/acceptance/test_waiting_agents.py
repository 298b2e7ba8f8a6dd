"""Agents that wait for work, over HTTP, against a server in a separate process."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import pytest

from patience import PATIENCE_SECONDS
from postgres_servers import Server, new_database
from preloaded_process import open_serve
from transport.messages import make_request, modern_headers
from waybook.client import Client

BATCH = 50
#: Number of waiting calls, and the maximum memory in MB that they may take together.
WAITING = (200, 12)
MANY_WAITING = (1_000, 50)


@pytest.fixture
def database_url(eighteen: Server) -> Iterator[str]:
    with new_database(eighteen) as place:
        yield place.app_dsn


def chain(steps: int) -> list[Any]:
    first: dict[str, Any] = {"stepType": "custom", "instructions": "Begin."}
    return [first, *({**first, "dependsOn": [n]} for n in range(1, steps))]


class Race:
    """Agents that wait for the steps of one plan, of which only one step is ready at any time."""

    def __init__(self, plan_id: str) -> None:
        self.plan_id = plan_id
        self.calls: Counter[str] = Counter()
        self.taken: list[tuple[int, str]] = []
        self.gaps: list[float] = []
        self._freed_at = 0.0

    async def work(self, client: Client, name: str) -> None:
        """Claim and complete steps until the plan ends; each result makes another step ready."""
        while True:
            reply = await client.call(
                "get_next_step", planId=self.plan_id, sessionId=name, waitSeconds=55
            )
            self.calls[reply["status"]] += 1
            if reply["status"] == "no_pending_steps":
                # On a busy machine, `waitSeconds` may pass before the next step is ready.
                continue
            if reply["status"] != "step_ready":
                break
            self.gaps.append(time.monotonic() - self._freed_at)
            self.taken.append((reply["stepOrder"], name))
            await self.submit(client, reply, name)
        assert reply["status"] == "plan_complete"

    async def submit(self, client: Client, step: dict[str, Any], name: str) -> None:
        self._freed_at = time.monotonic()
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        await client.call("submit_step_result", **held, resultSummary="done", sessionId=name)


@pytest.mark.parametrize("count", [16, pytest.param(64, marks=pytest.mark.load)])
async def test_each_freed_step_goes_to_one_of_the_waiting_agents(
    database_url: str, count: int
) -> None:
    with open_serve(WAYBOOK_DATABASE_URL=database_url) as (_, address):
        async with asyncio.timeout(PATIENCE_SECONDS), AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(address)) for _ in range(count)]
            plan = await clients[0].create_plan("Relay", "Who?", chain(count + 1))
            race = Race(plan["planId"])
            first = await clients[0].call(
                "get_next_step", planId=plan["planId"], sessionId="starter"
            )
            work = [
                asyncio.create_task(race.work(client, f"agent-{n}"))
                for n, client in enumerate(clients)
            ]
            await until_waiting(address, count)
            await race.submit(clients[0], first, "starter")
            await asyncio.gather(*work)
    assert [order for order, _ in race.taken] == list(range(2, count + 2))
    assert (race.calls["step_ready"], race.calls["plan_complete"]) == (count, count)
    middle = 1000 * median(race.gaps)
    print(f"{count} waiting agents: a step freed is taken after {middle:.1f} ms (median)")  # noqa: T201 - a figure


async def until_waiting(address: str, calls: int) -> None:
    async with httpx2.AsyncClient(
        base_url=address, trust_env=False, timeout=PATIENCE_SECONDS
    ) as http:
        while f"waybook_waiting_calls {calls}\n" not in (await http.get("/metrics")).text:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


def resident_mb(process_id: int) -> float:
    status = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


@asynccontextmanager
async def waiting_calls(address: str, plan_id: str, count: int) -> AsyncIterator[None]:
    """Keep this number of calls waiting during the block."""
    limits, headers = (
        httpx2.Limits(max_connections=None),
        modern_headers("tools/call", "get_next_step"),
    )
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS, limits=limits) as http:

        async def wait() -> None:
            arguments = {"planId": plan_id, "waitSeconds": 55}
            message = make_request("tools/call", name="get_next_step", arguments=arguments)
            # On a busy machine, a call may end before the last call has begun to wait, so make each
            # call again when it ends.
            while True:
                reply = await http.post(f"{address}/mcp", headers=headers, content=message)
                result = reply.json()["result"]
                assert "BUSY" in str(result) or result["structuredContent"]["retryAfterSeconds"]

        tasks: list[asyncio.Task[None]] = []
        for _ in range(0, count, BATCH):
            tasks += [asyncio.create_task(wait()) for _ in range(BATCH)]
            await until_waiting(address, len(tasks))
        yield
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
    await until_waiting(address, 0)


@pytest.mark.parametrize(
    ("count", "most_mb"), [WAITING, pytest.param(*MANY_WAITING, marks=pytest.mark.load)]
)
async def test_memory_used_by_waiting_calls_is_below_limit(
    database_url: str, count: int, most_mb: int
) -> None:
    with open_serve("--tools", "all", WAYBOOK_DATABASE_URL=database_url) as (process, address):
        async with asyncio.timeout(PATIENCE_SECONDS), Client(address) as client:
            plan = await client.create_plan("Crowd", "Who?", chain(2))
            await client.call("get_next_step", planId=plan["planId"])
            # The first calls load modules, caches and word vectors. Load them now, because the
            # measurement must contain only the memory that waiting calls take.
            await client.call("search_sources", query="rivers")
            async with waiting_calls(address, plan["planId"], BATCH):
                pass
            before = resident_mb(process.pid)
            async with waiting_calls(address, plan["planId"], count):
                grown = resident_mb(process.pid) - before
    print(f"{count:,} waiting calls over HTTP: {grown:.1f} MB")  # noqa: T201 - a figure
    assert grown < most_mb
