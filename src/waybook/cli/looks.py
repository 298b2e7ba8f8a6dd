"""How things look in a terminal: an icon, a word and a colour for each status.

Colours are the terminal's own sixteen, so they suit dark and light; nothing is told by colour
alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rich.text import Text

from waybook.dag.drawing.looks import STATUS_SYMBOLS
from waybook.dag.model import ProgressStatus
from waybook.plan.states import PlanStatus, StepStatus
from waybook.run.standing import RunState


@dataclass(frozen=True, slots=True)
class StatusStyle:
    icon: str
    word: str
    style: str

    def text(self) -> Text:
        """Icon and word, coloured."""
        return Text(f"{self.icon} {self.word}", style=self.style, no_wrap=True)


def _drawn(status: str, style: str) -> StatusStyle:
    """As on every map, coloured."""
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
PLAN_STYLES: Mapping[PlanStatus, StatusStyle] = MappingProxyType({
    PlanStatus.PLANNING:        _drawn("planning", "dim"),
    PlanStatus.EXECUTING:       _drawn("executing", "blue"),
    PlanStatus.AWAITING_REVIEW: _drawn("awaiting_review", "bold magenta"),
    PlanStatus.STALLED:         _drawn("stalled", "yellow"),
    PlanStatus.COMPLETED:       _drawn("completed", "green"),
    PlanStatus.FAILED:          _drawn("failed", "red"),
})
PROGRESS_STYLES: Mapping[ProgressStatus, StatusStyle] = MappingProxyType({
    ProgressStatus.COMPLETED:   _drawn("completed", "green"),
    ProgressStatus.FAILED:      _drawn("failed", "red"),
    ProgressStatus.IN_PROGRESS: _drawn("in_progress", "blue"),
    ProgressStatus.NOT_STARTED: _drawn("not_started", "dim"),
})
RUN_STYLES: Mapping[RunState, StatusStyle] = MappingProxyType({
    RunState.COMPLETED:         _drawn("completed", "green"),
    RunState.FAILED:            _drawn("failed", "red"),
    RunState.AWAITING_FEEDBACK: _drawn("awaiting_feedback", "bold magenta"),
    RunState.IN_PROGRESS:       _drawn("in_progress", "blue"),
})
# fmt: on
