"""Draws large diagrams in a separate process, so that the server is not blocked.

The process draws one diagram at a time, and is killed if a diagram takes too long.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import orjson

from waybook.app.request.cpu_queue import CpuQueue
from waybook.dag.diagram.routing import compute_layout
from waybook.dag.diagram.svg import Drawing, render_svg
from waybook.dag.model import Dag
from waybook.errors import TooLarge, Unavailable

_NICENESS: Final = 10


class Links(NamedTuple):
    step_prefix: str | None = None
    by_stage: tuple[tuple[str, str], ...] = ()
    by_step: tuple[tuple[tuple[str, str], str], ...] = ()
    by_heading: tuple[tuple[str, str], ...] = ()

    def resolver(self) -> Callable[[str, str], str | None]:
        prefix, by_stage, by_step = self.step_prefix, dict(self.by_stage), dict(self.by_step)
        if prefix is not None:
            return lambda _, key: f"{prefix}{key}"
        return lambda stage, key: by_step.get((stage, key)) or by_stage.get(stage)


class DrawingJob(NamedTuple):
    drawing: Drawing
    width: int | None = None
    links: Links | None = None
    styled: bool = False
    live: bool = False

    @property
    def weight(self) -> int:
        lanes = (lane for lane in self.drawing.diagram.lanes if not lane.is_collapsed)
        return sum(len(lane.steps) + len(lane.edges) for lane in lanes)


def render(job: DrawingJob) -> str:
    layout = compute_layout(job.drawing.diagram, width=job.width)
    address = job.links.resolver() if job.links else None
    headings = dict(job.links.by_heading) if job.links else {}
    return render_svg(
        layout,
        job.drawing.annotations,
        address=address,
        heading_url=headings.get if headings else None,
        styled=job.styled,
        live=job.live,
    )


def main() -> None:
    """Draw each pickled `DrawingJob` on standard input. Write each SVG as a line of JSON."""
    os.nice(_NICENESS)
    with suppress(EOFError):
        while True:
            job: DrawingJob = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
            sys.stdout.buffer.write(orjson.dumps(render(job)) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Diagrams up to this size are drawn in the server process, in at most about ten milliseconds.
MAX_INLINE_COST: Final = 200
MAX_QUEUED: Final = 8
MAX_DRAWING_SECONDS: Final = 20.0
MAX_CACHED_BYTES: Final = 8 * 1024 * 1024


class DrawingProcess:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] = lambda: None

    def draw(self, job: bytes) -> str:
        """Return the SVG of a pickled `DrawingJob`."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-P", "-m", "waybook.app.request.layout_worker"]
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._end = weakref.finalize(self, _end, self._process)
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the drawing process has no pipes")
        timer = threading.Timer(MAX_DRAWING_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        drawing = b""
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(job)
                process.stdin.flush()
                drawing = process.stdout.readline()
        finally:
            has_time_left = timer.is_alive()
            timer.cancel()
        if drawing.endswith(b"\n"):
            return str(orjson.loads(drawing))
        self.close()
        if has_time_left:
            log.error("the process that draws maps died")
            raise Unavailable("this map could not be drawn; read it with get_plan_status instead")
        raise TooLarge(
            f"this map takes longer than {MAX_DRAWING_SECONDS:.0f} s to draw; read it with "
            "get_plan_status or get_dag_map instead"
        )

    def close(self) -> None:
        self._process = None
        self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


class LayoutWorker:
    def __init__(self) -> None:
        self._drawing = CpuQueue("large maps", MAX_QUEUED)
        self._packing = CpuQueue("large maps", MAX_QUEUED)
        self._checking = CpuQueue("large definitions", MAX_QUEUED)
        self._worker = DrawingProcess()
        self._cache: OrderedDict[tuple[UUID, bytes], str] = OrderedDict()
        self._cached_bytes = 0

    async def picture(self, org_id: UUID, job: DrawingJob) -> str:
        """Return a diagram as SVG. A large diagram comes from the cache or the separate process."""
        if job.weight <= MAX_INLINE_COST:
            return render(job)

        def pack() -> tuple[bytes, bytes]:
            pickled = pickle.dumps(job)
            return pickled, sha256(pickled).digest()

        message, digest = await self._packing.run(org_id, pack)
        key = org_id, digest
        svg = self._cache.get(key)
        if svg is None:
            svg = await self._drawing.run(org_id, partial(self._worker.draw, message))
            self._cached_bytes += len(svg) - len(self._cache.pop(key, ""))
            self._cache[key] = svg
            while self._cached_bytes > MAX_CACHED_BYTES:
                _, dropped = self._cache.popitem(last=False)
                self._cached_bytes -= len(dropped)
        else:
            self._cache.move_to_end(key)
        return svg

    async def run(self, org_id: UUID, weight: int, work: Callable[[], T]) -> T:
        """Run a function immediately if its `weight` is small, otherwise in a thread."""
        if weight <= MAX_INLINE_COST:
            return work()
        return await self._checking.run(org_id, work)

    def close(self) -> None:
        self._worker.close()


def layout_cost(dag: Dag) -> int:
    return sum(len(stage.recipe.steps) + len(stage.recipe.edges) for stage in dag.stages)
