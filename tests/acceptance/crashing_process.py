"""Test processes that pause at a chosen point, report that they reached it, and are killed."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patience import PATIENCE_SECONDS


@contextmanager
def crashing_process(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a separate Python process, and kill it at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


async def read_marker(process: subprocess.Popen[str]) -> str:
    """Return the next line the process prints."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await asyncio.to_thread(process.stdout.readline)).strip()
