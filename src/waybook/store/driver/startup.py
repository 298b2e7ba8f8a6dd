"""Waits at startup for a database that is still starting."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import psycopg

from waybook.errors import Unavailable
from waybook.store.driver.dial import connect

#: Called with the error of the last attempt, the seconds waited so far, and the maximum.
WaitReport: TypeAlias = Callable[[str, float, float], None]

#: Maximum seconds of a connection attempt, and seconds between two attempts.
ATTEMPT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.5
#: Error texts of a server that will accept connections later. All other refusals are final.
TRANSIENT: Final = (
    *("starting up", "shutting down", "recovery", "not yet accepting", "too many"),
    # A pooler reports these if it cannot reach its database server.
    *("server login has been failing", "server_login_retry", "cannot connect to server"),
    *("query_wait_timeout", "no more connections"),
)


async def wait_until_reachable(dsn: str, seconds: float, report: WaitReport) -> None:
    """Wait until the database accepts a connection, or refuses one permanently.

    The first real connection reports a permanent refusal, such as a wrong password.

    Raises:
        Misconfigured: the connection string is invalid.
        Unavailable: the database accepted no connection within the given seconds.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while (obstacle := await _obstacle(dsn)) is not None:
        waited = loop.time() - begun
        if waited + PAUSE_SECONDS > seconds:
            raise Unavailable(f"the database was not ready within {seconds:g} seconds: {obstacle}")
        report(obstacle, waited, seconds)
        await asyncio.sleep(PAUSE_SECONDS)


async def _obstacle(dsn: str) -> str | None:
    """Return the reason why the database is not ready, or None."""
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            connection = await connect(dsn)
    except TimeoutError:
        return "no answer"
    except psycopg.OperationalError as error:
        text = " ".join(str(error).split())
        is_final = "FATAL:" in text and not any(words in text for words in TRANSIENT)
        return None if is_final else text
    await connection.close()
    return None
