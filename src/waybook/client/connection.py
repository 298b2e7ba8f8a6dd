"""Connection to a server over HTTP, and the rules by which a call is repeated."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from waybook.client.errors import Unreachable, error_in_answer, permanent_failure, retry_delay
from waybook.errors import Busy, RateLimited, WaybookError


class Connection(ABC):
    """Connection to a server. Several requests may be open at the same time."""

    url: str
    #: Maximum seconds for one try of a call.
    timeout: float

    async def ask(
        self,
        method: str,
        params: dict[str, object],
        left: float | None = None,
        *,
        waiting: float = 0.0,
    ) -> dict[str, Any]:
        """Send a request and return its result.

        The server may wait `waiting` seconds before it answers. After that, the limit is `timeout`
        seconds, or `left` seconds if they are fewer.

        Raises:
            Unreachable: there was no answer.
            WaybookError: the answer is an error; the subclass depends on the error.
        """
        seconds = waiting + (self.timeout if left is None else min(self.timeout, left))
        try:
            async with asyncio.timeout(seconds):
                return await self._send(method, params)
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.url} within {seconds:g} seconds") from error
        except (OSError, httpx2.HTTPError) as error:
            raise Unreachable(f"cannot reach {self.url}: {error}") from error

    @abstractmethod
    async def _send(self, method: str, params: dict[str, object]) -> dict[str, Any]: ...

    @abstractmethod
    async def close(self) -> None: ...


#: Revision of the MCP specification. With this revision, the server needs no handshake over HTTP.
REVISION = "2025-11-25"
#: Statuses of a server or proxy that is temporarily unavailable.
_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})


class HttpConnection(Connection):
    def __init__(
        self, url: str, token: str | None, timeout: float, name: str | None = None
    ) -> None:
        """Prepare requests to this URL. `timeout` is in seconds for each try of a call.

        `name` is the name of the client under which pages show the agent.
        """
        self.url = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"
        self.timeout = timeout
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            **({"authorization": f"Bearer {token}"} if token else {}),
            **({"user-agent": name} if name else {}),
        }
        self._http = httpx2.AsyncClient(headers=headers, timeout=None)  # `ask` limits the time.
        self._last_id = 0

    async def _send(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        response = await self._http.post(self.url, json=message)
        try:
            answer = response.json()
        except ValueError as error:
            raise _not_ours(response, self.url) from error
        match answer:
            case {"error": dict() as payload}:
                raise _with_header(error_in_answer(payload), response)
            case {"result": dict() as result}:
                return result
        raise _not_ours(response, self.url)

    async def close(self) -> None:
        await self._http.aclose()


def _not_ours(response: httpx2.Response, url: str) -> WaybookError:
    """Return the error for an answer that is not from Waybook, such as a proxy's page."""
    status = response.status_code
    if status in _TRANSIENT_STATUSES:
        return _with_header(Unreachable(f"{url} answered with status {status}"), response)
    return permanent_failure(
        f"{url} answered with status {status}, but not as a Waybook server: check the address"
    )


def _with_header(error: WaybookError, response: httpx2.Response) -> WaybookError:
    header = response.headers.get("retry-after", "")
    if header.isascii() and header.isdigit():
        error.details.setdefault("retryAfter", int(header))
    return error


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Limits on retries of a call that got no answer, or that the server refused temporarily."""

    #: Maximum seconds between the start of the first try and the start of the last try.
    deadline_seconds: float = 60.0
    first_delay_seconds: float = 0.1
    max_delay_seconds: float = 5.0

    def delay(self, attempt: int, elapsed: float, retry_after: float | None) -> float | None:
        """Return the seconds before the next try, or None if the call must not be repeated.

        >>> retry = Retry(deadline_seconds=10)
        >>> [retry.delay(attempt, 0.0, None) for attempt in (1, 2, 3, 99)]
        [0.1, 0.2, 0.4, 5.0]
        >>> retry.delay(1, 0.0, 3.0), retry.delay(1, 8.0, 3.0)
        (3.0, None)
        """
        doublings = min(attempt - 1, 30)  # After 30 doublings, any limit is exceeded.
        grown = min(self.first_delay_seconds * 2**doublings, self.max_delay_seconds)
        delay = max(grown, retry_after or 0.0)
        return delay if elapsed + delay <= self.deadline_seconds else None


NO_RETRY = Retry(deadline_seconds=0)


async def call_with_retries(
    attempt: Callable[[float | None], Awaitable[T]], retry: Retry, *, repeatable: bool
) -> T:
    """Repeat a call until it is answered, a retry cannot help, or the deadline is reached.

    `attempt` is called with the seconds left, or with None the first time.
    """
    clock = asyncio.get_running_loop().time
    started, left, number = clock(), None, 1
    while True:
        try:
            return await attempt(left)
        except WaybookError as error:
            # A call without an answer may have taken effect. A refused call has not.
            is_refused = isinstance(error, Busy | RateLimited)
            may_help = isinstance(error, Unreachable) or retry_delay(error) is not None
            if not is_refused and not (repeatable and may_help):
                raise
            delay = retry.delay(number, clock() - started, retry_delay(error))
            if delay is None:
                raise
        # Random delays keep clients from calling a restarted server all at the same time.
        await asyncio.sleep(delay * random.uniform(1.0, 1.25))  # noqa: S311 - no secret
        left = max(retry.deadline_seconds - (clock() - started), retry.first_delay_seconds)
        number += 1
