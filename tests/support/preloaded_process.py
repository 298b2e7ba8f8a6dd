"""Waybook processes that start quickly, without importing the application.

They are forked from a process that has already imported the application. The imports take 2 seconds
of CPU time, which is most of the time of a short Waybook process. Tests of how a process starts,
and tests with clients that start the process themselves, use `python -m waybook` instead.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

from embedded_postgres.processes import process_state
from run_place import run_directory
from waybook.cli.app import main

PRELOADED = ["waybook.cli.app", "waybook.cli.stdio.server", "waybook.cli.operator.serve"]


@dataclass(frozen=True, slots=True)
class PreloadedProcess:
    """Running Waybook process with the methods of `subprocess.Popen` that tests use."""

    process: ForkServerProcess
    stdin: IO[str]
    stdout: IO[str]

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; return its exit code.

        Raises:
            subprocess.TimeoutExpired: the process is still running after `timeout` seconds.
        """
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout or 0)
        return self.process.exitcode

    def is_stopped(self) -> bool:
        """Return whether SIGSTOP has stopped the process."""
        return process_state(self.pid) == "T"

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()


@contextmanager
def open_preloaded(
    words: Sequence[str], variables: Mapping[str, str], log: Path, program: str | None = None
) -> Iterator[PreloadedProcess]:
    """Start `waybook` with these arguments and environment variables; kill the process at the end.

    The process writes its standard error to the file `log`. If `program` is given, the process runs
    this Python source code instead of `waybook`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    typed, stdin = context.Pipe(duplex=False)
    stdout, printed = context.Pipe(duplex=False)
    process = context.Process(
        target=run_command,
        args=(words, dict(variables), typed, printed, log, program),
        name=words[0],
    )
    process.start()
    typed.close()
    printed.close()
    with (
        os.fdopen(os.dup(stdin.fileno()), "w", encoding="utf-8") as to_process,
        os.fdopen(os.dup(stdout.fileno()), encoding="utf-8") as from_process,
    ):
        stdin.close()
        stdout.close()
        try:
            yield PreloadedProcess(process, to_process, from_process)
        finally:
            process.kill()
            process.join()
            process.close()


@contextmanager
def open_serve(*words: str, **variables: str) -> Iterator[tuple[PreloadedProcess, str]]:
    """Start `waybook serve` on a free port; yield the process and its address."""
    log = run_directory() / f"serve-{os.urandom(4).hex()}.log"
    environment = {**os.environ, "NO_COLOR": "1", **variables}
    with open_preloaded(["serve", "--port", "0", *words], environment, log) as process:
        first_line = process.stdout.readline()
        assert first_line.startswith("Waybook is serving"), log.read_text()
        yield process, first_line.split()[-1]


def run_command(
    words: Sequence[str],
    variables: Mapping[str, str],
    typed: Connection,
    printed: Connection,
    log: Path,
    program: str | None,
) -> None:
    """Run a command, or `program` if given, with these files as standard streams."""
    with typed, printed, log.open("wb") as errors:
        os.dup2(typed.fileno(), 0)
        os.dup2(printed.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["waybook", *words]
    if program is None:
        main()
    else:
        exec(program, {})  # noqa: S102 - source code of a test
