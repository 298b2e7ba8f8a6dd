"""`waybook serve --workers N`: several processes on one port, under one supervisor."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest

from embedded_postgres.processes import process_state
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from waybook.client import Client

COUNT = 2

Process = subprocess.Popen[str]


@pytest.fixture
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    """Yield a migrated database."""
    with new_database(eighteen) as database:
        yield database


def start(place: ServerDatabase, *words: str, **environment: str) -> Process:
    command = [sys.executable, "-m", "waybook", "serve", "--port", "0", "--workers", str(COUNT)]
    urls = {"WAYBOOK_DATABASE_URL": place.app_dsn, **environment}
    return subprocess.Popen(
        [*command, *words],
        env={**os.environ, **urls},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(place: ServerDatabase) -> Iterator[tuple[Process, str]]:
    """Start a server with workers; yield the supervisor and the address."""
    with start(place) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


def workers(process: Process) -> set[int]:
    """Return the process ids of the workers."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii")
    return {int(child) for child in children.split()}


def is_running(pid: int) -> bool:
    return process_state(pid) != "Z"


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition on other processes holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - processes are polled
            await asyncio.sleep(0.01)


@asynccontextmanager
async def clients(address: str, count: int) -> AsyncIterator[list[Client]]:
    """Yield clients, each with a connection of its own."""
    opened = [Client(address) for _ in range(count)]
    try:
        yield [await client.__aenter__() for client in opened]
    finally:
        for client in opened:
            await client.__aexit__(None, None, None)


async def test_workers_of_a_server_share_the_port_and_all_plans(place: ServerDatabase) -> None:
    with serving(place) as (process, address):
        assert len(workers(process)) == COUNT
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
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0


async def test_supervisor_replaces_a_killed_worker(place: ServerDatabase) -> None:
    with serving(place) as (process, address):
        before = workers(process)
        os.kill(min(before), signal.SIGKILL)
        await eventually(lambda: len(workers(process)) == COUNT and workers(process) != before)
        async with clients(address, 4) as several:
            for client in several:
                await client.call("list_active_plans")


async def test_workers_stop_if_the_supervisor_is_killed(place: ServerDatabase) -> None:
    with serving(place) as (process, address):
        async with clients(address, 4) as several:
            # Every worker that answers listens to its lifeline.
            for client in several:
                await client.call("list_active_plans")
        pids = workers(process)
        process.kill()
        await eventually(lambda: not any(map(is_running, pids)))


def test_worker_that_fails_to_start_ends_the_supervisor(eighteen: Server) -> None:
    with new_database(eighteen, template="template0") as empty, start(empty) as process:
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "run waybook migrate" in errors
    assert "Traceback" not in errors


async def test_metrics_of_any_worker_include_calls_of_all_workers(place: ServerDatabase) -> None:
    calls = 'waybook_calls_total{tool="list_active_plans",outcome="ok"} '
    durations = 'waybook_call_duration_seconds_count{tool="list_active_plans"} '

    def figures(address: str) -> set[str]:
        text = httpx2.get(f"{address}/metrics").text  # A new connection, to any worker.
        return {line for line in text.splitlines() if line.startswith((calls, durations))}

    def answering_workers(address: str) -> set[str]:
        text = httpx2.get(f"{address}/metrics").text
        return {f"{n}" for n in range(COUNT) if f'waybook_leader{{worker="{n}"}}' in text}

    with serving(place) as (process, address):
        await eventually(lambda: len(answering_workers(address)) == COUNT)
        async with clients(address, 8) as several:
            for client in several:
                await client.call("list_active_plans")
        expected = {f"{calls}8", f"{durations}8"}
        for _ in range(10):
            await eventually(lambda: figures(address) == expected)
        os.kill(min(workers(process)), signal.SIGKILL)
        await eventually(lambda: len(workers(process)) == COUNT)
        for _ in range(10):
            await eventually(lambda: figures(address) == expected)
