"""Server shutdown while its database does not answer."""

import asyncio
import contextlib
import signal

from fault_link import fault_link
from postgres_servers import Server, new_database
from preloaded_process import open_serve
from waybook.client import Client
from waybook.errors import WaybookError

CALLS = 16
#: Number of database connections that do not answer when the server is asked to stop.
CONNECTIONS = 3
#: Maximum number of seconds between the request to stop and the end of the process.
LIMIT_SECONDS = 5.0


async def call_for_ever(address: str) -> None:
    async with Client(address) as client:
        while True:
            with contextlib.suppress(WaybookError):
                await client.call("list_active_plans")


async def test_serve_command_exits_in_time_on_sigterm_while_database_hangs(
    eighteen: Server,
) -> None:
    with (
        new_database(eighteen) as place,
        fault_link(place.app_dsn) as (link, dsn),
        open_serve(WAYBOOK_DATABASE_URL=dsn, WAYBOOK_OWNER_URL=place.owner_dsn) as (
            process,
            address,
        ),
    ):
        calls = [asyncio.create_task(call_for_ever(address)) for _ in range(CALLS)]
        while len(link.wires) < CONNECTIONS:  # noqa: ASYNC110 - counted by a thread
            await asyncio.sleep(0.01)
        link.is_open.clear()
        while link.held < CONNECTIONS:  # noqa: ASYNC110 - counted by a thread
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, LIMIT_SECONDS) == 0
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
