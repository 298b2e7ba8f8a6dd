"""Tool calls: how many, how long, what went wrong."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.desk import PageContext
from waybook.usecases.count_calls import MAX_COUNTED, count_calls

WINDOWS: Final = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
DEFAULT_WINDOW: Final = "24h"


@dataclass(frozen=True, slots=True)
class CallsPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The calls of a window."""
        asked = request.query_params.get("window", DEFAULT_WINDOW)
        window = asked if asked in WINDOWS else DEFAULT_WINDOW
        call = await self.desk.request_context(request)
        counted = await count_calls(call, WINDOWS[window])
        return await self.desk.render_page(
            request,
            "calls",
            calls=counted,
            window=window,
            windows=tuple(WINDOWS),
            most=MAX_COUNTED,
            dropped=self.desk.doorway.calls.dropped_of[call.caller.org_id],
        )
