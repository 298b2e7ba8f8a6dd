"""Server process for benchmarks that call a Waybook server over HTTP."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def serving(folder: Path, *options: str) -> AsyncIterator[tuple[str, int]]:
    """Start a server on a data directory; yield its address and its process id."""
    command = [sys.executable, "-m", "waybook", "serve", "--port", "0", *options]
    process = await asyncio.create_subprocess_exec(*command, "--data-dir", str(folder), stdout=PIPE)
    assert process.stdout
    try:
        async for line in process.stdout:
            if address := re.search(rb"http://[0-9.]+:[0-9]+", line):
                yield address[0].decode(), process.pid
                break
    finally:
        process.terminate()
        await process.communicate()
