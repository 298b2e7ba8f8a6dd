"""All steps of a large plan at one glance: a cell for each, a row for each page of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from waybook.dag.drawing.looks import STATUS_SYMBOLS
from waybook.plan.model import Step


@dataclass(frozen=True, slots=True)
class CellRun:
    """The cells of one status in a row, as one path."""

    status: str
    path: str


@dataclass(frozen=True, slots=True)
class GridRow:
    page: int
    first: int
    last: int
    streaks: tuple[CellRun, ...]


def build_step_grid(steps: Sequence[Step], width: int) -> list[GridRow]:
    """Rows of so many steps each."""
    return [
        _row(number, steps[start : start + width], width)
        for number, start in enumerate(range(0, len(steps), width), start=1)
    ]


def _row(number: int, steps: Sequence[Step], width: int) -> GridRow:
    paths: dict[str, list[str]] = {}
    place = 0
    for status, run in groupby(steps, key=lambda step: str(step.status)):
        length = sum(1 for _ in run)
        paths.setdefault(status, []).append(f"M{place} 0h{length}")
        place += length
    streaks = tuple(
        CellRun(status, "".join(paths[status])) for status in STATUS_SYMBOLS if status in paths
    )
    first = (number - 1) * width + 1
    return GridRow(number, first, first + len(steps) - 1, streaks)
