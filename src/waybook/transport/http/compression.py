"""Compression of HTTP responses with gzip. A streamed response is flushed after every chunk.

The size of a compressed page can reveal a secret in it (the BREACH attack), so the CSRF token is
masked differently in every response.
"""

import asyncio
import re
import zlib
from collections.abc import Iterable
from functools import partial
from typing import Final

from starlette.types import Message, Send

from waybook.transport.http.headers import HeaderValues

#: Event streams (`text/event-stream`) are not compressed.
_COMPRESSIBLE: Final = frozenset(
    {
        "application/json",
        "application/problem+json",
        "application/x-ndjson",
        "image/svg+xml",
        "text/css",
        "text/csv",
        "text/html",
        "text/javascript",
        "text/markdown",
        "text/plain",
    }
)
#: Smaller responses fit into one packet and are not compressed.
MIN_BYTES: Final = 1_200
#: Size from which responses are compressed in a thread, because that takes more than 5 ms.
MIN_THREAD_BYTES: Final = 256 * 1024
_LEVEL: Final = 6
GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
#: Statuses of responses without a complete body, which are not compressed.
_NOT_COMPRESSED: Final = frozenset({204, 206, 304})

_CODING: Final = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?")

_RawHeaders = Iterable[tuple[bytes, bytes]]
VARY: Final = (b"vary", b"accept-encoding")


def gzip_text(body: bytes, level: int = _LEVEL) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, GZIP_FORMAT)
    return packer.compress(body) + packer.flush()


def accepts_gzip(headers: HeaderValues) -> bool:
    """Return whether the `Accept-Encoding` headers of a request allow gzip.

    >>> accepts_gzip({b"accept-encoding": ["br, gzip;q=0.5"]})
    True
    >>> accepts_gzip({b"accept-encoding": ["gzip;q=0, *"]}), accepts_gzip({})
    (False, False)
    """
    values = headers.get(b"accept-encoding", ())
    weights: dict[str, float] = {}
    for coding in ",".join(values).split(","):
        if matched := _CODING.fullmatch(coding):
            weights[matched[1].lower()] = float(matched[2] or 1)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _is_compressible(status: int, headers: _RawHeaders) -> bool:
    known = {name.lower(): value for name, value in headers}
    kind = known.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    return (
        status not in _NOT_COMPRESSED
        and kind in _COMPRESSIBLE
        and b"content-encoding" not in known
        and b"no-transform" not in known.get(b"cache-control", b"")
    )


def is_plain(body: bytes, *, accepted: bool) -> bool:
    return not accepted or len(body) < MIN_BYTES


class CompressingSend:
    """ASGI `send` that compresses a response once its type and size are known."""

    def __init__(self, send: Send, *, accepted: bool) -> None:
        self._send = send
        self._accepted = accepted
        self._start: Message | None = None
        self._stream: _Stream | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            if not _is_compressible(message["status"], headers):
                await self._send(message)
                return
            message = {**message, "headers": _with_vary(headers)}
            if self._accepted:
                self._start = message
                return
        elif message["type"] == "http.response.body":
            chunk, more = message.get("body", b""), message.get("more_body", False)
            start, self._start = self._start, None
            if start is not None and (more or len(chunk) >= MIN_BYTES):
                self._stream = _Stream()
                encoded = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
                encoded.append((b"content-encoding", b"gzip"))
                start = {**start, "headers": encoded}
            if self._stream is not None:
                chunk = await self._stream.pack(chunk, more=more)
                if start is not None and not more:
                    start["headers"].append((b"content-length", b"%d" % len(chunk)))
            if start is not None:
                await self._send(start)
            message = {**message, "body": chunk}
        await self._send(message)


class _Stream:
    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP_FORMAT)

    async def pack(self, chunk: bytes, *, more: bool) -> bytes:
        """Compress and flush a chunk, so that the client can read it immediately."""
        work = partial(self._pack, chunk, more=more)
        return await asyncio.to_thread(work) if len(chunk) >= MIN_THREAD_BYTES else work()

    def _pack(self, chunk: bytes, *, more: bool) -> bytes:
        mode = zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
        return self._packer.compress(chunk) + self._packer.flush(mode)


def _with_vary(headers: _RawHeaders) -> list[tuple[bytes, bytes]]:
    vary = [value for name, value in headers if name.lower() == b"vary"]
    if not vary:
        return [*headers, VARY]
    others = [(name, value) for name, value in headers if name.lower() != b"vary"]
    return [*others, (b"vary", b", ".join([*vary, b"accept-encoding"]))]
