"""Interface of the connections to a Waybook server."""

from typing import Any, Protocol


class Connection(Protocol):
    """Connection that carries requests and their answers, several of them concurrently."""

    #: Address of the server, for messages.
    url: str

    async def ask(
        self,
        method: str,
        params: dict[str, object],
        left: float | None = None,
        *,
        waiting: float = 0.0,
    ) -> dict[str, Any]:
        """Send a request, for at most `left` seconds, and return the result.

        `waiting` are the seconds for which the server may wait before it answers; they are added
        to the time limit.
        """

    async def close(self) -> None:
        """Release the resources of the connection."""
