"""Tool calls: how many, how long, what went wrong."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.count_calls import MOST_COUNTED, count_calls

WINDOWS: Final = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL: Final = "24h"


@dataclass(frozen=True, slots=True)
class Calls:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The calls of a window."""
        asked = request.query_params.get("window", USUAL)
        window = asked if asked in WINDOWS else USUAL
        call = await self.desk.call(request)
        counted = await count_calls(call, WINDOWS[window])
        return await self.desk.page(
            request,
            "calls",
            calls=counted,
            window=window,
            windows=tuple(WINDOWS),
            most=MOST_COUNTED,
            dropped=self.desk.doorway.calls.dropped_of[call.caller.org_id],
        )
