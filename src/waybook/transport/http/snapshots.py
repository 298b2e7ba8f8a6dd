"""API that makes reports and maps of runs from data that other systems send."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, cast

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError
from waybook.transport.http.rate_limits import RequestThrottle
from waybook.transport.http.requests import answer_error_response
from waybook.transport.http.responses import json_response

_MAX_CONCURRENT: Final = 2


class SnapshotApi:
    def __init__(self, pace: RequestThrottle | None = None) -> None:
        self.pace = pace
        self.turns = asyncio.Semaphore(_MAX_CONCURRENT)

    async def report(self, request: Request) -> Response:
        return await self._answer(request, report_from_snapshot)

    async def map(self, request: Request) -> Response:
        return await self._answer(request, map_from_snapshot)

    async def _answer(self, request: Request, door: Callable[[object], object]) -> Response:
        if self.pace and (error := await self.pace.rate_limited_response(request)):
            return answer_error_response(error.as_json())
        body = await request.body()
        async with self.turns:
            return await asyncio.to_thread(answer_snapshot, body, door)


def answer_snapshot(body: bytes, door: Callable[[object], object]) -> Response:
    try:
        answer = door(read_snapshot(body))
    except BadRecipe as error:
        return json_response(error.as_json(), HTTPStatus.UNPROCESSABLE_ENTITY)
    except WaybookError as error:
        return json_response(error.as_json(), HTTPStatus.BAD_REQUEST)
    return json_response(cast("Mapping[str, object]", answer))


def read_snapshot(body: bytes) -> object:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None
