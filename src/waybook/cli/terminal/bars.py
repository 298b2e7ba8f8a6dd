"""Status colors, and a progress bar with one segment per status, for terminals.

Each status has an icon, a word and a color, so that nothing depends on color alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rich.text import Text

from waybook.dag.diagram.status_marks import STATUS_SYMBOLS
from waybook.dag.model import ProgressStatus, RunState
from waybook.plan.model import PlanState, StepStatus


@dataclass(frozen=True, slots=True)
class StatusStyle:
    icon: str
    word: str
    style: str

    def text(self) -> Text:
        return Text(f"{self.icon} {self.word}", style=self.style, no_wrap=True)


def _drawn(status: str, style: str) -> StatusStyle:
    shown = STATUS_SYMBOLS[status]
    return StatusStyle(shown.symbol, shown.label, style)


# fmt: off
STEP_STYLES: Mapping[StepStatus, StatusStyle] = MappingProxyType({
    StepStatus.COMPLETED:      _drawn("completed", "green"),
    StepStatus.SKIPPED:        _drawn("skipped", "cyan"),
    StepStatus.FAILED:         _drawn("failed", "red"),
    StepStatus.AWAITING_INPUT: _drawn("awaiting_input", "bold magenta"),
    StepStatus.IN_PROGRESS:    _drawn("in_progress", "blue"),
    StepStatus.PENDING:        _drawn("pending", "dim"),
})
PLAN_STYLES: Mapping[PlanState, StatusStyle] = MappingProxyType({
    PlanState.PLANNING:         _drawn("planning", "dim"),
    PlanState.EXECUTING:        _drawn("executing", "blue"),
    PlanState.AWAITING_REVIEW:  _drawn("awaiting_review", "bold magenta"),
    PlanState.STALLED:          _drawn("stalled", "yellow"),
    PlanState.COMPLETED:        _drawn("completed", "green"),
    PlanState.FAILED:           _drawn("failed", "red"),
    PlanState.CANCELED:         _drawn("canceled", "dim"),
})
PROGRESS_STYLES: Mapping[ProgressStatus, StatusStyle] = MappingProxyType({
    ProgressStatus.COMPLETED:   _drawn("completed", "green"),
    ProgressStatus.FAILED:      _drawn("failed", "red"),
    ProgressStatus.IN_PROGRESS: _drawn("in_progress", "blue"),
    ProgressStatus.NOT_STARTED: _drawn("not_started", "dim"),
})
RUN_STYLES: Mapping[RunState, StatusStyle] = MappingProxyType({
    RunState.COMPLETED:         _drawn("completed", "green"),
    RunState.CANCELED:         _drawn("canceled", "dim"),
    RunState.FAILED:            _drawn("failed", "red"),
    RunState.AWAITING_FEEDBACK: _drawn("awaiting_feedback", "bold magenta"),
    RunState.IN_PROGRESS:       _drawn("in_progress", "blue"),
})
# fmt: on
UNKNOWN = StatusStyle("?", "unknown", "yellow")
#: For each status of a run's stages and steps, the `StepStatus` whose bar segment is used.
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
        style = STEP_STYLES[status].style.removeprefix("bold ")
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
