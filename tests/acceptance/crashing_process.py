"""Processes that pause at a chosen point, print the name of this point, and are then killed."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

from patience import PATIENCE_SECONDS
from preloaded_process import PreloadedProcess, open_preloaded
from run_place import run_directory


@contextmanager
def crashing_process(program: str, *arguments: str) -> Iterator[PreloadedProcess]:
    """Run the source code `program` in a new process; kill the process at the end of the block."""
    log = run_directory() / f"crashing-{os.urandom(4).hex()}.log"
    with open_preloaded(arguments, os.environ, log, program) as process:
        yield process


async def read_marker(process: PreloadedProcess) -> str:
    """Return the next line that the process prints, which names the point where it paused."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await asyncio.to_thread(process.stdout.readline)).strip()
