"""HTTP client for one URL, with limits on time and size.

Redirects are not followed, because the API key must be sent to this URL only.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx2
import orjson

from waybook.errors import EndpointFailed, EndpointUnreachable, Misconfigured
from waybook.json_values import Json

log = logging.getLogger(__name__)

MAX_BYTES = 2 * 1024 * 1024
MAX_CONNECTIONS = 10
#: Statuses after which a request is retried if the answer has a Retry-After header.
_RETRYABLE_STATUS = frozenset({429, 503, 529})
MAX_RETRIES = 2
#: Statuses for a wrong API key. Their error texts often repeat a part of the key.
_AUTH_STATUS = frozenset({401, 403})
MAX_ERROR_LENGTH = 300


class BoundedHttpClient:
    """HTTP client for one URL. Its connections stay open until `close` is called."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        secret: str | None = None,
        most_bytes: int = MAX_BYTES,
        connections: int = MAX_CONNECTIONS,
        max_retry_seconds: float = math.inf,
    ) -> None:
        """Create a client that sends these headers. `secret` is removed from error messages.

        A request is not repeated if the server asks to wait longer than `max_retry_seconds`.
        """
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise Misconfigured(f"the value of the header {name} must be printable ASCII")
        self.url = url
        self.most_bytes = most_bytes
        # Accept only uncompressed answers, because a small compressed answer can expand to any
        # size.
        self._headers = {"content-type": "application/json", **headers}
        self._headers |= {"accept": "application/json", "accept-encoding": "identity"}
        self._secret = secret
        self._connections = connections
        self._max_retry_seconds = max_retry_seconds
        self._making: asyncio.Task[httpx2.AsyncClient] | None = None

    async def post(self, body: Json, *, seconds: float) -> Json:
        """Send JSON in a POST request and return the JSON response.

        Raises:
            EndpointFailed: there was no answer, or it had an error status or no JSON; the attribute
                `status` is the status code of the answer, if there was an answer.
        """
        return await self.request("POST", orjson.dumps(body), {}, seconds=seconds)

    async def request(
        self, method: str, content: bytes, headers: Mapping[str, str], *, seconds: float
    ) -> Json:
        try:
            async with asyncio.timeout(max(0.0, seconds)) as limit:
                deadline = limit.when() or 0.0
                status, body, wait = await self._ask(method, content, headers, deadline)
            return self._read(status, body, wait)
        except TimeoutError:
            message = f"it did not finish answering within {max(0.0, seconds):.3g} s"
            failed: EndpointFailed = EndpointUnreachable(message)
        except EndpointFailed as error:
            failed = error
        log.info("%s: %s", urlsplit(self.url).hostname, failed.message)
        raise failed

    async def deliver(self, content: bytes, headers: Mapping[str, str], *, seconds: float) -> int:
        """Send a POST request and return the status code. The response body is ignored."""
        try:
            async with (
                asyncio.timeout(max(0.0, seconds)),
                self._sent("POST", content, headers) as response,
            ):
                return response.status_code
        except TimeoutError:
            message = f"it gave no answer within {max(0.0, seconds):.3g} s"
            raise EndpointFailed(message) from None

    async def close(self) -> None:
        if self._making is not None:
            await (await self._making).aclose()

    async def _ask(
        self, method: str, content: bytes, headers: Mapping[str, str], deadline: float
    ) -> tuple[int, bytes, float | None]:
        """Return the answer's status, body and delay, after up to `MAX_RETRIES` retries."""
        retries = 0
        while True:
            async with self._sent(method, content, headers) as response:
                body = await self._body(response)
            wait = None
            if response.status_code in _RETRYABLE_STATUS:
                wait = _seconds(response.headers.get("retry-after"))
            left = deadline - asyncio.get_running_loop().time()
            is_last = retries == MAX_RETRIES
            if wait is None or is_last or wait >= min(left, self._max_retry_seconds):
                return response.status_code, body, wait
            retries += 1
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def _sent(
        self, method: str, content: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        client, headers = await self._client(), {**self._headers, **headers}
        try:
            async with client.stream(
                method, self.url, content=content, headers=headers
            ) as response:
                yield response
        except (httpx2.ConnectError, httpx2.ProxyError):
            raise EndpointUnreachable("it cannot be reached") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            # The original message is left out, because it may contain a header.
            message = f"the connection broke ({type(error).__name__})"
            raise EndpointUnreachable(message) from None

    async def _body(self, response: httpx2.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise EndpointFailed("it sent a compressed answer, which was not requested")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self.most_bytes:
                raise EndpointFailed(f"it answered with more than {self.most_bytes:,} bytes")
        return bytes(body)

    async def _client(self) -> httpx2.AsyncClient:
        # Create the client once, in a thread, because loading the system's certificates is slow.
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(_make_client, self._connections))
        return await asyncio.shield(self._making)

    def _read(self, status: int, body: bytes, retry_after: float | None) -> Json:
        if not 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls a success
            detail = "" if status in _AUTH_STATUS else self._extract_error_message(body)
            message = f"it answered {status}" + (f": {detail}" if detail else "")
            failed = EndpointFailed(message, status=status)
            failed.asked_delay = retry_after
            raise failed
        try:
            value: Json = orjson.loads(body)
        except ValueError:
            raise EndpointFailed("it did not answer with JSON") from None
        return value

    def _extract_error_message(self, body: bytes) -> str:
        """Return the error message in a response body, or an empty text without a message."""
        try:
            value = orjson.loads(body)
        except ValueError:
            return ""
        for name in ("error", "message", "detail"):
            if isinstance(value, dict):
                value = value.get(name, value)
        text = value if isinstance(value, str) else ""
        return (text.replace(self._secret, "…") if self._secret else text)[:MAX_ERROR_LENGTH]


def _make_client(connections: int) -> httpx2.AsyncClient:
    # httpx2 logs every URL, and a URL may be a secret, so log only warnings.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return httpx2.AsyncClient(
        timeout=None,  # Each request has its own time limit.
        limits=httpx2.Limits(max_connections=connections),
        follow_redirects=False,
    )


def _seconds(retry_after: str | None) -> float | None:
    """Return the delay in seconds that a Retry-After header requests, or None if it is invalid.

    >>> _seconds("2"), _seconds("Thu, 01 Jan 1970 00:00:00 GMT"), _seconds("soon"), _seconds("-1")
    (2.0, 0.0, None, None)
    """
    if retry_after is None:
        return None
    try:
        wait = float(retry_after)
    except ValueError:
        try:
            wait = max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    return wait if 0 <= wait < float("inf") else None
