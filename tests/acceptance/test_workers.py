"""`waybook serve --workers N`: several processes on one port, under one supervisor."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest

from embedded_postgres.processes import process_state
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from preloaded_process import PreloadedProcess, open_preloaded, open_serve
from waybook.client import Client

COUNT = 2


@pytest.fixture
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    with new_database(eighteen) as database:
        yield database


@contextmanager
def serving(place: ServerDatabase) -> Iterator[tuple[PreloadedProcess, str]]:
    """Start a server with several workers; yield the supervisor process and the address."""
    url = {"WAYBOOK_DATABASE_URL": place.app_dsn}
    with open_serve("--workers", str(COUNT), **url) as served:
        yield served


def workers(process: PreloadedProcess) -> set[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii")
    return {int(child) for child in children.split()}


def is_running(pid: int) -> bool:
    return process_state(pid) != "Z"


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until the condition, which depends on other processes, is true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - processes are polled
            await asyncio.sleep(0.01)


@asynccontextmanager
async def clients(address: str, count: int) -> AsyncIterator[list[Client]]:
    """Yield MCP clients, each with its own connection."""
    opened = [Client(address) for _ in range(count)]
    try:
        yield [await client.__aenter__() for client in opened]
    finally:
        for client in opened:
            await client.__aexit__(None, None, None)


async def test_workers_share_plans_and_metrics_even_after_a_worker_dies(
    place: ServerDatabase,
) -> None:
    calls = 'waybook_calls_total{tool="list_active_plans",outcome="ok"} '
    durations = 'waybook_call_duration_seconds_count{tool="list_active_plans"} '

    def figures(address: str) -> set[str]:
        # This request uses a new connection, which any worker may answer.
        text = httpx2.get(f"{address}/metrics").text
        return {line for line in text.splitlines() if line.startswith((calls, durations))}

    def answering_workers(address: str) -> set[str]:
        text = httpx2.get(f"{address}/metrics").text
        return {f"{n}" for n in range(COUNT) if f'waybook_leader{{worker="{n}"}}' in text}

    with serving(place) as (process, address):
        before = workers(process)
        assert len(before) == COUNT
        await eventually(lambda: len(answering_workers(address)) == COUNT)
        async with clients(address, 8) as several:
            made = await several[0].call(
                "create_research_plan",
                name="shared",
                researchQuestion="Which worker?",
                steps=[{"stepType": "search", "instructions": "Look."}],
            )
            for client in several:
                status = await client.call("get_plan_status", planId=made["planId"])
                assert status["planId"] == made["planId"]
                await client.call("list_active_plans")
        expected = {f"{calls}8", f"{durations}8"}
        for _ in range(10):
            await eventually(lambda: figures(address) == expected)
        os.kill(min(before), signal.SIGKILL)
        await eventually(lambda: len(workers(process)) == COUNT and workers(process) != before)
        for _ in range(10):
            await eventually(lambda: figures(address) == expected)
        async with clients(address, 4) as several:
            for client in several:
                await client.call("get_plan_status", planId=made["planId"])
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0


async def test_workers_stop_if_the_supervisor_is_killed(place: ServerDatabase) -> None:
    with serving(place) as (process, address):
        async with clients(address, 4) as several:
            # A worker that has answered a call is also ready to notice the end of the supervisor.
            for client in several:
                await client.call("list_active_plans")
        pids = workers(process)
        process.kill()
        await eventually(lambda: not any(map(is_running, pids)))


def test_worker_that_fails_to_start_ends_the_supervisor(eighteen: Server, tmp_path: Path) -> None:
    words, log = ["serve", "--port", "0", "--workers", str(COUNT)], tmp_path / "log"
    with new_database(eighteen, template="template0") as empty:
        variables = {**os.environ, "WAYBOOK_DATABASE_URL": empty.app_dsn}
        with open_preloaded(words, variables, log) as process:
            assert process.wait(PATIENCE_SECONDS) == 1
    errors = log.read_text()
    assert "run waybook migrate" in errors
    assert "Traceback" not in errors
