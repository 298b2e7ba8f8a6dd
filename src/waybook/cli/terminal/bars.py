"""Status colors, and a progress bar with one segment per status, for terminals.

Each status has an icon, a word and a color, so that nothing depends on color alone.
"""

from collections.abc import Mapping

from rich.text import Text

from waybook.dag.diagram.status_marks import UNKNOWN, symbol_for
from waybook.dag.model import ProgressStatus
from waybook.plan.model import StepStatus

#: Style of each status of steps, stages, plans and runs.
STATUS_STYLES = {
    "completed": "green",
    "skipped": "cyan",
    "failed": "red",
    "canceled": "dim",
    "awaiting_input": "bold magenta",
    "awaiting_review": "bold magenta",
    "awaiting_feedback": "bold magenta",
    "stalled": "yellow",
    "executing": "blue",
    "in_progress": "blue",
    "planning": "dim",
    "pending": "dim",
    "not_started": "dim",
    UNKNOWN: "yellow",
}


def status_text(status: str | None) -> Text:
    known = str(status or UNKNOWN)
    symbol = symbol_for(known)
    return Text(f"{symbol.symbol} {symbol.label}", style=STATUS_STYLES[known], no_wrap=True)


#: For each status of a run's stages and steps: the `StepStatus` as which the bar shows it.
BAR_STATUS = {
    ProgressStatus.COMPLETED: StepStatus.COMPLETED,
    ProgressStatus.FAILED: StepStatus.FAILED,
    ProgressStatus.IN_PROGRESS: StepStatus.IN_PROGRESS,
    ProgressStatus.NOT_STARTED: StepStatus.PENDING,
}

#: Each status has its own character, so that the bar is readable without color.
_GLYPHS = {
    StepStatus.COMPLETED: "█",
    StepStatus.SKIPPED: "▓",
    StepStatus.FAILED: "▚",
    StepStatus.AWAITING_INPUT: "▞",
    StepStatus.IN_PROGRESS: "▒",
    StepStatus.PENDING: "░",
}


def segmented_bar(counts: Mapping[StepStatus, int], width: int) -> Text:
    """Return a progress bar of this width. Each status has a segment, sized by its share.

    >>> segmented_bar({StepStatus.COMPLETED: 1, StepStatus.PENDING: 3}, 8).plain
    '██░░░░░░'
    """
    bar = Text(no_wrap=True)
    for status, cells in cell_counts(counts, width).items():
        style = STATUS_STYLES[status].removeprefix("bold ")
        bar.append(_GLYPHS[status] * cells, style=style)
    return bar


def with_failed(done: str, failed: int) -> Text:
    text = Text(done)
    return text.append(f", {failed} failed", style="red") if failed else text


def bar_line(label: str, counts: Mapping[StepStatus, int], percent: int, width: int) -> Text:
    share = f"  {percent} %"
    room = max(4, min(60, width - len(label) - len(share)))
    return Text.assemble((label, "bold"), segmented_bar(counts, room), (share, "bold"))


def cell_counts(counts: Mapping[StepStatus, int], width: int) -> dict[StepStatus, int]:
    """Return how many cells of the bar each status gets: at least one, and `width` in total.

    >>> list(cell_counts({StepStatus.COMPLETED: 99, StepStatus.FAILED: 1}, 10).values())
    [9, 1]
    """
    present = {status: counts[status] for status in _GLYPHS if counts.get(status)}
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
    worded = Text("   ").join(_counted(counts, words=True))
    if worded.cell_len <= width:
        return worded
    brief = Text("  ").join(_counted(counts, words=False))
    brief.no_wrap, brief.overflow = True, "ellipsis"
    return brief


def _counted(counts: Mapping[StepStatus, int], *, words: bool) -> list[Text]:
    parts = []
    for status in _GLYPHS:
        if counts.get(status):
            symbol = symbol_for(status)
            word = f" {symbol.label}" if words else ""
            parts.append(Text(f"{symbol.symbol} {counts[status]}{word}", STATUS_STYLES[status]))
    return parts
