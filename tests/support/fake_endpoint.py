"""Fake third-party HTTP endpoint on loopback, with scripted behavior over real sockets."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Writer = asyncio.StreamWriter
Play = Callable[[Writer], Awaitable[None]]

ACCEPT_ITERATIONS = 5


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.raw)


@dataclass
class EndpointServer:
    """HTTP server with one scripted behavior for each request; the last behavior repeats."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    plays: deque[Play] = field(default_factory=deque)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def will(self, *plays: Play) -> None:
        self.plays = deque(plays)

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            first, *lines = head.decode().strip().split("\r\n")
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append(ReceivedRequest(first.split()[1], headers, body))
            self.heard.set()
            play = self.plays[0] if len(self.plays) == 1 else self.plays.popleft()
            await play(writer)


def answer(body: object, status: int = 200, **headers: str) -> Play:
    """Return a behavior that sends this body: a string as it is, any other value as JSON."""
    content = (body if isinstance(body, str) else json.dumps(body)).encode()
    header_fields = {"content-type": "application/json", "content-length": str(len(content))}
    header_fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [
        f"HTTP/1.1 {status} Said",
        *(f"{name}: {value}" for name, value in header_fields.items()),
    ]

    async def play(writer: Writer) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()

    return play


async def never_respond(_: Writer) -> None:
    await asyncio.Event().wait()


async def endless_body(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()


async def slow_body(writer: Writer) -> None:
    """Send the first chunk of a response body and nothing more."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n")
    await never_respond(writer)


async def slow_headers(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx: y\r\n")
    await never_respond(writer)


async def truncated_body(writer: Writer) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":')
    await writer.drain()
    writer.close()


async def invalid_body(writer: Writer) -> None:
    writer.write(b"SSH-2.0-elsewhere\r\n\r\n")
    await writer.drain()
    writer.close()


async def close_early(writer: Writer) -> None:
    writer.close()


@asynccontextmanager
async def fake_endpoint(*plays: Play) -> AsyncIterator[EndpointServer]:
    endpoint = EndpointServer(plays=deque(plays))
    tasks: set[asyncio.Task[None]] = set()
    writers: set[Writer] = set()

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            await endpoint.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client has closed the connection, so no one can receive a response.
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: Writer) -> None:
        writers.add(writer)
        tasks.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield endpoint
    finally:
        server.close()
        # After the kernel accepts a connection, the event loop needs some iterations to start the
        # task that serves it.
        for _ in range(ACCEPT_ITERATIONS):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that was canceled before it started has not closed its connection.
        for writer in writers:
            writer.close()
        await asyncio.sleep(0)


async def unused_url() -> str:
    async with fake_endpoint(never_respond) as gone:
        return gone.url
