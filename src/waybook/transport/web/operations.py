"""What operators ask: is it alive, does the database answer, and the figures."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from waybook.errors import WaybookError
from waybook.transport.web.metrics import Metric, render_metrics
from waybook.transport.web.replies import error_response, json_response

READY_WITHIN: Final = 2.0  # seconds the database has to answer


@dataclass(frozen=True, slots=True)
class Operations:
    """Answers for those who watch over the server."""

    ready: Callable[[], Awaitable[bool]]
    stuck: Callable[[], bool]
    metrics: Callable[[], Iterable[Metric]]

    async def healthz(self, _: Request) -> Response:
        """Answer 200 while the process can serve, 503 when only a restart would help."""
        if self.stuck():
            return error_response(
                503, "UNAVAILABLE", "A database connection is stuck; restart the server."
            )
        return json_response({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """The database answers, and soon."""
        try:
            async with asyncio.timeout(READY_WITHIN):
                ready = await self.ready()
        except (TimeoutError, WaybookError):
            ready = False
        if not ready:
            return error_response(503, "UNAVAILABLE", "The database does not answer.")
        return json_response({"status": "ready"})

    async def figures(self, _: Request) -> Response:
        """The figures, for Prometheus."""
        text = render_metrics(self.metrics())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
