"""A process of ours with little room: what a bomb takes, it does not get."""

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

MEBIBYTE = 1024 * 1024
#: What bombs may take beyond what is loaded: bytes at any time, seconds of work in all.
MEMORY = 200 * MEBIBYTE
SECONDS = 100
PATIENCE = 120.0
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def limit(process: int) -> None:
    """From here on the process gets little of everything."""
    used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(process, resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.prlimit(process, resource.RLIMIT_CPU, (SECONDS, SECONDS))


@dataclass
class Session:
    """A client that writes whatever it likes to a server over stdio."""

    process: Process
    asked: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)

    async def write(self, pieces: Iterable[bytes]) -> None:
        assert self.process.stdin is not None
        for piece in pieces:
            self.process.stdin.write(piece)
            await self.process.stdin.drain()

    async def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """The result of a sound request; `said` has everything that was said before it."""
        self.asked += 1
        identity = f"sound {self.asked}"
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        await self.write([json.dumps(message).encode() + b"\n"])
        return (await self.hear(identity))["result"]

    async def hear(self, identity: str | int | None) -> dict[str, Any]:
        """What is said to this request."""
        assert self.process.stdout is not None
        while True:
            line = await self.process.stdout.readline()
            assert line, (await self.process.communicate())[1][-3000:].decode()
            told: dict[str, Any] = json.loads(line)
            if told.get("id") == identity:
                return told
            self.said.append(told)

    async def works(self) -> None:
        answer = await self.ask("tools/call", name="list_active_plans", arguments={})
        assert not answer["isError"], answer

    async def end(self) -> bytes:
        """Hang up; tells what the server still said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        rest, complaints = await self.process.communicate()
        assert self.process.returncode == 0, complaints
        assert b"Traceback" not in complaints, complaints
        return rest


@asynccontextmanager
async def a_session(*words: str) -> AsyncIterator[Session]:
    """A server over stdio that has begun to work, and has little room from then on."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "waybook", "mcp", *words),
        # Without background work: what that loads a little later is none of a bomb's making.
        env={**os.environ, "NO_COLOR": "1", "WAYBOOK_SWEEP_SECONDS": "0"},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=4 * MEBIBYTE,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            session = Session(process)
            await session.ask("initialize", **HELLO)
            await session.works()
            limit(process.pid)
            yield session
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
