"""HTTP requests on raw sockets, to measure the number of transferred bytes."""

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

BROWSER_HEADERS = {"accept": "text/html,*/*", "accept-encoding": "gzip, deflate, br, zstd"}


@dataclass(frozen=True)
class WireResponse:
    status: int
    headers: dict[str, str]
    body: bytes
    #: Size of the compressed body, and size of the whole response with its headers.
    encoded_bytes: int
    received_bytes: int

    @property
    def text(self) -> str:
        return self.body.decode()


async def fetch(
    address: str, path: str, headers: Mapping[str, str] = BROWSER_HEADERS
) -> WireResponse:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    lines = {"host": where.netloc, "connection": "close", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    received = await reader.read()
    writer.close()
    return parse(received)


def parse(received: bytes) -> WireResponse:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(_chunks(body))
    encoded = len(body)
    if headers.get("content-encoding") == "gzip":
        body = zlib.decompress(body, 16 + zlib.MAX_WBITS)
    status = HTTPStatus(int(first.split()[1]))
    return WireResponse(status, headers, body, encoded, len(received))


def _chunks(body: bytes) -> list[bytes]:
    chunks = []
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        chunks.append(body[:count])
        body = body[count + 2 :]
    return chunks
