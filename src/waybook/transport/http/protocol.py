"""HTTP connection with limits on the size of request headers and the time to receive them.

Without these limits, any client could exhaust memory with an endless header, or occupy every
connection.
"""

from asyncio import TimerHandle, Transport
from typing import Final

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 200
#: Time limit for receiving the URL and headers of a request.
HEAD_TIMEOUT_SECONDS: Final = 30.0

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: 26\r\n"
    b"connection: close\r\n"
    b"\r\n"
    b"The headers are too large."
)


#: Name of the ASGI extension that holds the `Exchange` of a request.
_EXCHANGE: Final = "waybook.exchange"
_HEAD: Final = b"HTTP/1.1 200 OK\r\n%b: %b\r\ncontent-length: %d\r\n"


class _HeadTooLarge(Exception):
    """Error: the URL and headers of a request exceed their limits."""


class Exchange:
    """Reads the whole body of a request at once, and writes the whole response at once."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def take_body(self, limit: int) -> bytes | None:
        """Return the request body if it was fully received and is within the limit."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.response_complete:
            return None
        if len(cycle.body) > limit:
            return None
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def respond(self, head: bytes, body: bytes) -> bool:
        """Send a response with status 200 in one write. Return whether it was sent."""
        cycle = self._cycle
        if cycle.response_started or cycle.disconnected or not cycle.keep_alive:
            return False
        # A second default header means that the server is stopping and closes its connections.
        if cycle.flow.write_paused or len(cycle.default_headers) != 1:
            return False
        ((name, value),) = cycle.default_headers
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(_HEAD % (name, value, len(body)) + head + b"\r\n" + body)
        cycle.message_event.set()
        cycle.on_response()
        return True


def exchange_of(scope: Scope) -> Exchange | None:
    extensions = scope.get("extensions")
    exchange: Exchange | None = extensions.get(_EXCHANGE) if extensions else None
    return exchange


class BoundedHeadProtocol(HttpToolsProtocol):
    """HTTP connection that limits the size of request headers and the time to send them."""

    _bytes = 0
    _headers = 0
    _buffered = 0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # narrower than in the base class
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data, and refuse the request if its headers are too large."""
        self._buffered += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._buffered > MAX_BYTES:
            self._refuse()
        elif self.cycle is None or self.cycle.response_complete:
            # Limit the time for the URL and headers of the next request.
            self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bytes = self._headers = 0

    def on_url(self, url: bytes) -> None:
        self._bytes += len(url)
        if self._is_too_much():
            raise _HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._bytes += len(name) + len(value)
        if self._is_too_much():
            raise _HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._buffered = 0
        self._stop_expecting()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.scope is self.scope:
            self.scope["extensions"] = {_EXCHANGE: Exchange(self.cycle)}  # type: ignore[dict-item]  # not JSON

    def on_body(self, body: bytes) -> None:
        self._buffered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._buffered = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_too_much():
            self._refuse()
        else:
            super().send_400_response(msg)

    def _is_too_much(self) -> bool:
        return self._bytes > MAX_BYTES or self._headers > MAX_HEADERS

    def _refuse(self) -> None:
        self.transport.write(TOO_LARGE)
        self.transport.close()

    def _expect(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._give_up)

    def _stop_expecting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.close()
