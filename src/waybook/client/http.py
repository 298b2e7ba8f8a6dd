"""Connection to a Waybook server over HTTP."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2

from waybook.client.errors import Unreachable, error_in_answer, permanent_failure
from waybook.errors import WaybookError

#: This revision of MCP needs no handshake.
REVISION = "2025-11-25"
#: Statuses of a server or proxy that is temporarily unavailable.
TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})


class HttpConnection:
    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        """Prepare requests to the server at this URL. `timeout` is in seconds per attempt."""
        self.url = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"
        self.timeout = timeout
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout)
        self._last_id = 0

    async def ask(
        self,
        method: str,
        params: dict[str, object],
        left: float | None = None,
        *,
        waiting: float = 0.0,
    ) -> dict[str, Any]:
        """Send a request and return its result, within `left` plus `waiting` seconds.

        Raises:
            Unreachable: there was no answer.
            WaybookError: the answer is an error; the subclass depends on the error.
        """
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        seconds = waiting + (self.timeout if left is None else min(self.timeout, left))
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.post(self.url, json=message, timeout=seconds)
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.url} within {seconds:g} seconds") from error
        except httpx2.HTTPError as error:
            raise Unreachable(f"cannot reach {self.url}: {error}") from error
        return _result_of(response, self.url)

    async def close(self) -> None:
        await self._http.aclose()


def _result_of(response: httpx2.Response, url: str) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError as error:
        raise _not_ours(response, url) from error
    match answer:
        case {"error": dict() as payload}:
            raise _with_header(error_in_answer(payload), response)
        case {"result": dict() as result}:
            return result
    raise _not_ours(response, url)


def _not_ours(response: httpx2.Response, url: str) -> WaybookError:
    """Return the error for an answer that is not from Waybook, such as a proxy's page."""
    status = response.status_code
    if status in TRANSIENT_STATUSES:
        return _with_header(Unreachable(f"{url} answered with status {status}"), response)
    return permanent_failure(
        f"{url} answered with status {status}, but not as a Waybook server: check the address"
    )


def _with_header(error: WaybookError, response: httpx2.Response) -> WaybookError:
    header = response.headers.get("retry-after", "")
    if header.isascii() and header.isdigit():
        error.details.setdefault("retryAfter", int(header))
    return error
