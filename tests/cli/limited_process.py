"""A `waybook mcp` process with limits on memory and CPU time, for tests with hostile input."""

import asyncio
import json
import os
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patience import PATIENCE_SECONDS

MEBIBYTE = 1024 * 1024
#: Limits of the process after its start, for memory in bytes and for CPU time in seconds.
MEMORY = 200 * MEBIBYTE
SECONDS = 100
#: Program that runs the command line without preparing the search in the background, which would
#: use up the memory.
_WITHOUT_SEARCH = """
from waybook import background
from waybook.cli.app import main

background.WARMUP_DELAY_SECONDS = 3_600
main()
"""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def limit(process: int) -> None:
    used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(process, resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.prlimit(process, resource.RLIMIT_CPU, (SECONDS, SECONDS))


@dataclass
class Session:
    """Connection to a `waybook mcp` process, over which any bytes can be sent."""

    process: Process
    last_id: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)

    async def write(self, pieces: Iterable[bytes]) -> None:
        assert self.process.stdin is not None
        for piece in pieces:
            self.process.stdin.write(piece)
            await self.process.stdin.drain()

    async def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Send a valid request; return its result, and append earlier messages to `said`."""
        self.last_id += 1
        identity = f"sound {self.last_id}"
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        await self.write([json.dumps(message).encode() + b"\n"])
        return (await self.hear(identity))["result"]

    async def hear(self, identity: str | int | None) -> dict[str, Any]:
        """Return the response to the request with this id; append earlier messages to `said`."""
        assert self.process.stdout is not None
        while True:
            line = await self.process.stdout.readline()
            assert line, (await self.process.communicate())[1][-3000:].decode()
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == identity:
                return message
            self.said.append(message)

    async def works(self) -> None:
        """Check that a call succeeds after the database has started."""
        call = {"name": "list_active_plans", "arguments": {}}
        while (answer := await self.ask("tools/call", **call))["isError"]:
            assert "the database is still starting" in answer["content"][0]["text"]

    async def end(self) -> bytes:
        assert self.process.stdin is not None
        self.process.stdin.close()
        rest, complaints = await self.process.communicate()
        assert self.process.returncode == 0, complaints
        assert b"Traceback" not in complaints, complaints
        return rest


@asynccontextmanager
async def limited_session(*words: str) -> AsyncIterator[Session]:
    """Start `waybook mcp`, and limit its resources after the start."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WITHOUT_SEARCH, "mcp", *words),
        env={**os.environ, "NO_COLOR": "1"},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=4 * MEBIBYTE,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            session = Session(process)
            await session.ask("initialize", **HELLO)
            await session.works()
            limit(process.pid)
            yield session
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
