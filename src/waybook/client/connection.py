"""Interface of the connections to a Waybook server."""

from typing import Any, Protocol


class Connection(Protocol):
    """Connection to a server. Several requests may be open at the same time."""

    url: str

    async def ask(
        self,
        method: str,
        params: dict[str, object],
        left: float | None = None,
        *,
        waiting: float = 0.0,
    ) -> dict[str, Any]:
        """Send a request and return its result, within `left` seconds.

        The server may wait `waiting` seconds longer before it answers.
        """

    async def close(self) -> None: ...
