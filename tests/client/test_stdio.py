"""Client that starts its own server process and calls it over stdio."""

import asyncio
import os
import signal
from typing import Any

import pytest

from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook.client import NO_RETRY, Client, Retry, StdioConnection, stdio
from waybook.client.replies import NewStep
from waybook.client.stdio import DEFAULT_COMMAND
from waybook.errors import NotFound, Unavailable

STEPS: list[NewStep] = [
    {"stepType": "search", "instructions": "One."},
    {"stepType": "search", "instructions": "Two."},
]


def connect(place: ServerDatabase) -> StdioConnection:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WAYBOOK_")}
    command = (*DEFAULT_COMMAND, "--database-url", place.app_dsn)
    return StdioConnection(*command, timeout=PATIENCE_SECONDS, env=environment)


async def test_stdio_client_restarts_killed_server_and_completes_plan(
    module_place: ServerDatabase,
) -> None:
    connection = connect(module_place)
    retry = Retry(deadline_seconds=PATIENCE_SECONDS)
    async with asyncio.timeout(2 * PATIENCE_SECONDS), Client(connection, retry=retry) as client:
        assert {"get_next_step", "get_next_job"} <= {t["name"] for t in await client.tools()}
        with pytest.raises(NotFound):
            await client.call("get_plan_status", planId="no such plan")
        plan = await client.create_plan("Rivers", "Which?", STEPS)
        async for step in client.steps(plan["planId"]):
            async with step:
                if step.order == 1:
                    os.kill(server_id(connection), signal.SIGKILL)
                await step.submit("found")
        restarted = server_id(connection)
        status = await client.call("get_plan_status", planId=plan["planId"])
    assert status["counts"] == {"done": 2, "total": 2}
    assert not is_running(restarted)


async def test_closing_stdio_client_with_waiting_calls_stops_the_server(
    module_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client kills a server that does not exit in time, so allow more time than usual.
    monkeypatch.setattr(stdio, "MAX_EXIT_SECONDS", PATIENCE_SECONDS)
    connection = connect(module_place)
    steps: list[NewStep] = [STEPS[0], {**STEPS[1], "dependsOn": [1]}]
    async with asyncio.timeout(2 * PATIENCE_SECONDS), Client(connection, retry=NO_RETRY) as client:
        await until_started(client)
        plan = await client.create_plan("Rivers", "Which?", steps)
        async with client.step(plan["planId"]) as step:
            waiting = await started_wait(client, plan["planId"], "canceled")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await step.submit("found")
        async with client.step(plan["planId"], session_id="other", on_error="keep") as step:
            assert (step.order, step.attempt, step.is_resumed) == (2, 1, False)
            waiting = await started_wait(client, plan["planId"], "open")
            assert connection._server is not None
            process = connection._server._process
            await connection.close()
            with pytest.raises(Unavailable):
                await waiting
            assert process.returncode == 0  # The client did not have to kill the server.
            await step.submit("found")


async def until_started(client: Client) -> None:
    """Repeat a call until the server does not report any more that the database is starting."""
    while True:
        try:
            await client.call("ping")
        except Unavailable as error:
            assert "the database is still starting" in error.message  # noqa: PT017 - any other ends the loop
        else:
            return


async def started_wait(
    client: Client, plan_id: str, session_id: str
) -> asyncio.Task[dict[str, Any]]:
    """Start a call that waits for a step; return when the audit shows that the call has begun."""
    arguments = {"planId": plan_id, "sessionId": session_id, "waitSeconds": 55}
    task = asyncio.create_task(client.call("get_next_step", **arguments))
    while session_id not in str(
        (await client.call("get_research_context", planId=plan_id, since=0))["recentEvents"]
    ):
        assert not task.done(), task.result()
    return task


def server_id(connection: StdioConnection) -> int:
    assert connection._server is not None
    return connection._server._process.pid


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
