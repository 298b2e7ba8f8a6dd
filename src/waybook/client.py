"""Async client that calls the tools of a running `waybook serve`.

    async with Client("http://127.0.0.1:8750") as wb:
        step = await wb.call("get_next_step", planId=plan_id)

An error reply is raised as the matching exception: `NotFound`, `StaleAttempt`, and so on.
"""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from waybook import errors
from waybook.errors import NextCall, WaybookError

#: Revision of the MCP protocol that this client uses, because the revision requires neither a
#: handshake nor headers that repeat the message body.
REVISION = "2025-11-25"
BAD_PARAMS = -32602

KINDS: Mapping[str, type[WaybookError]] = {
    kind.code: kind
    for kind in (
        errors.BadExpression,
        errors.BadRecipe,
        errors.Busy,
        errors.Forbidden,
        errors.IdempotencyConflict,
        errors.InvalidTransition,
        errors.InvalidInput,
        errors.InvalidStepReference,
        errors.NotAwaitingReview,
        errors.NotFound,
        errors.NotModifiable,
        errors.PlanTerminal,
        errors.RateLimited,
        errors.StaleAttempt,
        errors.StalePlan,
        errors.TooLarge,
        errors.Unavailable,
    )
}


class Client:
    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0) -> None:
        """Connect to the server at this URL; `timeout` is in seconds."""
        self.url = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout)
        self._last_id = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """Call a tool and return its reply.

        Raises:
            WaybookError: the tool refused, by the error's own class; `Unavailable` if the server
                cannot be reached: then repeat the call with the same `idempotencyKey`.
        """
        result = await self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise _error_in(result)
        reply: dict[str, Any] = result["structuredContent"]
        return reply

    async def tools(self) -> list[dict[str, Any]]:
        """Return the tools that the server offers, as described by the MCP protocol."""
        listed: list[dict[str, Any]] = (await self._ask("tools/list", {}))["tools"]
        return listed

    async def _ask(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        try:
            response = await self._http.post(self.url, json=message)
            answer: dict[str, Any] = response.json()
        except httpx2.HTTPError as error:
            raise errors.Unavailable(f"cannot reach {self.url}: {error}") from error
        except ValueError as error:
            raise errors.Unavailable(f"{self.url} does not speak our language") from error
        if "error" in answer:
            raise _refused(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result


def _refused(error: dict[str, Any]) -> WaybookError:
    """Convert an HTTP or JSON-RPC error to an exception."""
    if isinstance(error.get("code"), str):
        return error_from(error)
    kind = errors.InvalidInput if error.get("code") == BAD_PARAMS else errors.Unavailable
    return kind(str(error.get("message", "")))


def _error_in(result: dict[str, Any]) -> WaybookError:
    return error_from(json.loads(result["content"][0]["text"])["error"])


def error_from(payload: Mapping[str, Any]) -> WaybookError:
    """Convert the error in a tool's reply to the exception that the server raised.

    >>> error_from({"code": "STALE_ATTEMPT", "message": "attempt 2 runs", "details": {"now": 2}})
    StaleAttempt('attempt 2 runs')
    """
    kind = KINDS.get(str(payload["code"]), WaybookError)
    error = kind.__new__(kind)
    following = payload.get("next")
    call = NextCall(**following) if following else None
    WaybookError.__init__(error, str(payload["message"]), next_call=call)
    error.details.update(payload.get("details") or {})
    return error
