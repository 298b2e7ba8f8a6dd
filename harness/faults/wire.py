"""Tool calls over persistent HTTP connections."""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

HOST: Final = "127.0.0.1"
LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
HTTP_OK: Final = 200


class Broken(Exception):
    """The connection ended before the whole answer had arrived."""


class Overdue(Exception):
    """The deadline passed without an answer, while the connection stayed open."""


@dataclass(frozen=True, slots=True)
class Address:
    """Port of a server, and value of the `Host` header."""

    port: int
    host_header: str


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    raw: str

    def tool_result(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the tool refused the call, and the reply or the error."""
        result = json.loads(self.raw)["result"]
        return bool(result.get("isError")), json.loads(result["content"][0]["text"])


class Wire:
    """HTTP connections of an agent, one to each server that it has called."""

    def __init__(self, addresses: Mapping[str, Address], token: str) -> None:
        self._addresses = addresses
        self._token = token
        self._open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, object], deadline_seconds: float
    ) -> Answer:
        """Make a tool call; return the answer.

        Raises:
            Broken: the connection could not be opened, or ended.
            Overdue: the deadline passed.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                return await self._exchange(server, _request(tool, arguments))
        except TimeoutError as error:
            self.drop(server)
            raise Overdue from error
        except (OSError, EOFError, RuntimeError, asyncio.LimitOverrunError) as error:
            self.drop(server)
            raise Broken(str(error)) from error
        except BaseException:
            self.drop(server)
            raise

    async def send_and_leave(self, server: str, tool: str, arguments: Mapping[str, object]) -> None:
        """Send a tool call, and close the connection without waiting for the answer."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                _, writer = await self._connection(server)
                writer.write(self._framed(server, _request(tool, arguments)))
                await writer.drain()
        self.drop(server)

    def drop(self, server: str) -> None:
        if server in self._open:
            self._open.pop(server)[1].transport.abort()

    def close(self) -> None:
        for server in list(self._open):
            self.drop(server)

    async def _connection(self, server: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if server in self._open and self._open[server][1].transport.is_closing():
            self.drop(server)
        if server not in self._open:
            port = self._addresses[server].port
            self._open[server] = await asyncio.open_connection(HOST, port, limit=MAX_REPLY_BYTES)
        return self._open[server]

    async def _exchange(self, server: str, body: bytes) -> Answer:
        reader, writer = await self._connection(server)
        writer.write(self._framed(server, body))
        head = await reader.readuntil(b"\r\n\r\n")
        size = LENGTH.search(head)
        if size is None:
            raise EOFError(f"no content-length in {head!r}")
        text = await reader.readexactly(int(size[1]))
        if b"connection: close" in head.lower():
            self.drop(server)
        return Answer(int(head[9:12]), text.decode())

    def _framed(self, server: str, body: bytes) -> bytes:
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: {self._addresses[server].host_header}\r\n"
            f"authorization: Bearer {self._token}\r\n"
            "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
            f"mcp-protocol-version: 2025-11-25\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _request(tool: str, arguments: Mapping[str, object]) -> bytes:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message).encode()
