"""Supervisor of worker processes that serve on one port: `waybook serve --workers N`.

The supervisor replaces a worker that dies, and passes on the signals that stop the server. If the
supervisor dies, its workers stop.
"""

import gc
import logging
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

log = logging.getLogger(__name__)

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
#: The delay before a restart doubles each time a worker dies early.
MIN_DELAY_SECONDS: Final = 0.1
MAX_DELAY_SECONDS: Final = 10.0
STEADY_SECONDS: Final = 10.0
#: Seconds between two checks. The death of a worker triggers a check immediately.
CHECK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SupervisorLink:
    index: int
    reports: int
    #: This pipe becomes readable only when the supervisor has ended.
    lifeline: int

    def report_serving(self) -> None:
        os.write(self.reports, b"1")


Serve = Callable[[SupervisorLink], int]


@dataclass(slots=True)
class Worker:
    pid: int
    pipe: int
    started: float
    is_serving: bool = False


@dataclass(slots=True)
class Supervisor:
    """Parent of the worker processes, which run `serve`."""

    count: int
    serve: Serve
    workers: dict[int, Worker] = field(default_factory=dict)
    restarts: dict[int, float] = field(default_factory=dict)
    early_deaths: int = 0
    status: int = 0
    is_stopping: bool = False
    lifeline: tuple[int, int] = field(default_factory=os.pipe)

    def run(self) -> int:
        previous = {number: signal.signal(number, self._stop) for number in STOP_SIGNALS}
        try:
            self.restarts = dict.fromkeys(range(self.count), 0.0)
            gc.freeze()  # Lets the workers share the memory of existing objects.
            while self.workers or not self.is_stopping:
                self._start_due()
                self._wait()
                self._reap()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self.status

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.is_stopping = True
        self._send(number)

    def _send(self, number: int) -> None:
        for worker in self.workers.values():
            os.kill(worker.pid, number)

    def _start_due(self) -> None:
        now = time.monotonic()
        for index in [index for index, due in self.restarts.items() if due <= now]:
            if not self.is_stopping:
                self.workers[index] = self._fork(index)
                del self.restarts[index]

    def _fork(self, index: int) -> Worker:
        reading, writing = os.pipe()
        # Block stop signals until the worker is in `workers`, so that every signal is passed on to
        # it.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid:
            os.close(writing)
            self.workers[index] = Worker(pid, reading, time.monotonic())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            return self.workers[index]
        status = 1
        try:
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            os.close(reading)
            os.close(self.lifeline[1])
            status = self.serve(SupervisorLink(index, writing, self.lifeline[0]))
        finally:
            # Exit here, because a worker must not continue with the code of the supervisor.
            os._exit(status)

    def _wait(self) -> None:
        """Wait until a worker reports that it serves or ends, or until the next check."""
        pipes = [worker.pipe for worker in self.workers.values()]
        for pipe in select.select(pipes, (), (), CHECK_SECONDS)[0]:
            if os.read(pipe, 1):
                worker = next(w for w in self.workers.values() if w.pipe == pipe)
                worker.is_serving = True

    def _reap(self) -> None:
        for index, worker in list(self.workers.items()):
            ended, status = os.waitpid(worker.pid, os.WNOHANG)
            if ended:
                del self.workers[index]
                os.close(worker.pipe)
                self._after(index, worker, os.waitstatus_to_exitcode(status))

    def _after(self, index: int, worker: Worker, code: int) -> None:
        if self.is_stopping:
            return
        now = time.monotonic()
        if not worker.is_serving and code > 0:
            # A worker that fails before it serves has wrong settings or a wrong database. A new
            # worker would fail too, so stop the server.
            self.status, self.is_stopping = code, True
            self._send(signal.SIGTERM)
            return
        log.warning("worker %d ended with status %d and is started again", index, code)
        steady = now - worker.started >= STEADY_SECONDS
        self.early_deaths = 0 if steady else self.early_deaths + 1
        delay = MIN_DELAY_SECONDS * 2 ** min(max(self.early_deaths - 1, 0), 16)
        self.restarts[index] = now if steady else now + min(delay, MAX_DELAY_SECONDS)
