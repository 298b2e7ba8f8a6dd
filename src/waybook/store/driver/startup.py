"""Repeats the start of the server while the database is unreachable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

from waybook.errors import Unavailable

T = TypeVar("T")
#: Function that gets the last error, the seconds waited so far, and the maximum.
WaitReport: TypeAlias = Callable[[str, float, float], None]

#: Pause between two attempts, in seconds.
PAUSE_SECONDS: Final = 0.5
#: Error texts of a server that will accept connections later. Every other refusal is final.
TRANSIENT: Final = (
    *("starting up", "shutting down", "recovery", "not yet accepting", "too many"),
    "terminating connection",
    # Error texts of a connection pooler that cannot reach its database server.
    *("server login has been failing", "server_login_retry", "cannot connect to server"),
    *("query_wait_timeout", "no more connections"),
)


async def retry_start(start: Callable[[], Awaitable[T]], seconds: float, report: WaitReport) -> T:
    """Start, and start again as long as the database is unreachable.

    Raises:
        Unavailable: the database was not ready within the given seconds, or refused a connection
            permanently (a wrong password, an unknown database).
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        try:
            return await start()
        except Unavailable as error:
            obstacle = " ".join(str(error.__cause__ or error).split())
            if "FATAL:" in obstacle and not any(words in obstacle for words in TRANSIENT):
                raise
            waited = loop.time() - begun
            if waited + PAUSE_SECONDS > seconds:
                text = f"the database was not ready within {seconds:g} seconds: {obstacle}"
                raise Unavailable(text) from error
        report(obstacle, waited, seconds)
        await asyncio.sleep(PAUSE_SECONDS)
