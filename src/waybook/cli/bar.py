"""The segmented bar: how much of a plan is in which status, at a glance."""

from collections.abc import Mapping

from rich.text import Text

from waybook.cli.looks import STEP_STYLES
from waybook.plan.states import StepStatus

#: A glyph for each status, so that the bar can be read without colours too.
GLYPHS = {
    StepStatus.COMPLETED: "█",
    StepStatus.SKIPPED: "▓",
    StepStatus.FAILED: "▚",
    StepStatus.AWAITING_INPUT: "▞",
    StepStatus.IN_PROGRESS: "▒",
    StepStatus.PENDING: "░",
}


def segmented_bar(counts: Mapping[StepStatus, int], width: int) -> Text:
    """A bar of this width, each status with its share.

    >>> segmented_bar({StepStatus.COMPLETED: 1, StepStatus.PENDING: 3}, 8).plain
    '██░░░░░░'
    """
    bar = Text(no_wrap=True)
    for status, cells in cell_counts(counts, width).items():
        style = STEP_STYLES[status].style.removeprefix("bold ")
        bar.append(GLYPHS[status] * cells, style=style)
    return bar


def cell_counts(counts: Mapping[StepStatus, int], width: int) -> dict[StepStatus, int]:
    """How many cells each status gets: by its share, at least one, all together the width.

    >>> list(cell_counts({StepStatus.COMPLETED: 99, StepStatus.FAILED: 1}, 10).values())
    [9, 1]
    """
    present = {status: counts[status] for status in STEP_STYLES if counts.get(status)}
    total = sum(present.values())
    if not total:
        return {StepStatus.PENDING: width}
    cells = {status: max(1, width * count // total) for status, count in present.items()}
    by_need = sorted(present, key=lambda s: width * present[s] / total - cells[s], reverse=True)
    while by_need and sum(cells.values()) != width:
        missing = width - sum(cells.values())
        if missing > 0:
            cells[by_need[0]] += 1
            by_need = [*by_need[1:], by_need[0]]
        elif max(cells.values()) > 1:
            cells[max(cells, key=lambda status: cells[status])] -= 1
        else:
            break
    return cells


def status_counts(counts: Mapping[StepStatus, int], width: int) -> Text:
    """The counts of each status that occurs: in words, or by icon where words do not fit."""
    worded = Text("   ").join(_counted(counts, words=True))
    if worded.cell_len <= width:
        return worded
    brief = Text("  ").join(_counted(counts, words=False))
    brief.no_wrap, brief.overflow = True, "ellipsis"
    return brief


def _counted(counts: Mapping[StepStatus, int], *, words: bool) -> list[Text]:
    return [
        Text(f"{look.icon} {counts[status]}{f' {look.word}' if words else ''}", style=look.style)
        for status, look in STEP_STYLES.items()
        if counts.get(status)
    ]
