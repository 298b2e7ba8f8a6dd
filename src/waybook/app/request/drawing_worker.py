"""Worker process that draws maps: pickled jobs on stdin, drawings on stdout.

Drawing is pure Python and takes seconds for the largest maps. In a thread it would share the
interpreter lock with every call; in a separate process, at low priority, it does not delay them.
The parent is the only writer of stdin, and the process ends when the parent closes it.
"""

import os
import pickle
import sys
from collections.abc import Callable
from typing import IO, Final, NamedTuple

from waybook.dag.diagram.export import Drawing
from waybook.dag.diagram.layout import compute_layout
from waybook.dag.diagram.svg import render_svg

#: Bytes of the length prefix of every message.
PREFIX_BYTES: Final = 4
NICENESS: Final = 10


class Links(NamedTuple):
    """URLs of the boxes: by step, below a prefix, or by stage."""

    step_prefix: str | None = None
    by_stage: tuple[tuple[str, str], ...] = ()

    def resolver(self) -> Callable[[str, str], str | None]:
        """Return the function that maps a stage and a step to a URL."""
        prefix, by_stage = self.step_prefix, dict(self.by_stage)
        if prefix is not None:
            return lambda _, key: f"{prefix}{key}"
        return lambda stage, _: by_stage.get(stage)


class DrawingJob(NamedTuple):
    """A drawing to be rendered as SVG."""

    drawing: Drawing
    width: int | None = None
    links: Links | None = None
    #: Whether to include its own style sheet, for a file.
    styled: bool = False

    @property
    def weight(self) -> int:
        """Return the number of steps and lines."""
        return sum(len(lane.steps) + len(lane.edges) for lane in self.drawing.diagram.lanes)


def render(job: DrawingJob) -> str:
    """Return the SVG of a job."""
    layout = compute_layout(job.drawing.diagram, width=job.width)
    address = job.links.resolver() if job.links else None
    return render_svg(layout, job.drawing.annotations, address=address, styled=job.styled)


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write one message, preceded by its length."""
    stream.write(len(message).to_bytes(PREFIX_BYTES, "big") + message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the other side has closed the stream."""
    prefix = stream.read(PREFIX_BYTES)
    if len(prefix) < PREFIX_BYTES:
        return None
    size = int.from_bytes(prefix, "big")
    message = stream.read(size)
    return message if len(message) == size else None


def main() -> None:
    """Render jobs until stdin is closed."""
    os.nice(NICENESS)
    jobs, drawings = sys.stdin.buffer, sys.stdout.buffer
    while (message := read_message(jobs)) is not None:
        job: DrawingJob = pickle.loads(message)  # noqa: S301 - written by our own parent process
        write_message(drawings, render(job).encode())


if __name__ == "__main__":
    main()
