"""How things look in a terminal: an icon, a word and a colour for each status; times in words.

Colours are the terminal's own sixteen, so they suit dark and light; nothing is told by colour
alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from rich.text import Text

from waybook.dag.drawing.looks import LOOKS
from waybook.dag.model import Standing
from waybook.plan.states import PlanStatus, StepStatus
from waybook.run.standing import RunState

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class Look:
    icon: str
    word: str
    style: str

    def text(self) -> Text:
        """Icon and word, coloured."""
        return Text(f"{self.icon} {self.word}", style=self.style, no_wrap=True)


def _drawn(status: str, style: str) -> Look:
    """As on every map, coloured."""
    shown = LOOKS[status]
    return Look(shown.sign, shown.word, style)


# fmt: off
STEP_LOOKS: Mapping[StepStatus, Look] = MappingProxyType({
    StepStatus.COMPLETED:      _drawn("completed", "green"),
    StepStatus.SKIPPED:        _drawn("skipped", "cyan"),
    StepStatus.FAILED:         _drawn("failed", "red"),
    StepStatus.AWAITING_INPUT: _drawn("awaiting_input", "bold magenta"),
    StepStatus.IN_PROGRESS:    _drawn("in_progress", "blue"),
    StepStatus.PENDING:        _drawn("pending", "dim"),
})
PLAN_LOOKS: Mapping[PlanStatus, Look] = MappingProxyType({
    PlanStatus.PLANNING:        Look("·", "planning", "dim"),
    PlanStatus.EXECUTING:       Look("◐", "executing", "blue"),
    PlanStatus.AWAITING_REVIEW: Look("!", "awaiting review", "bold magenta"),
    PlanStatus.STALLED:         Look("▲", "stalled", "yellow"),
    PlanStatus.COMPLETED:       Look("✓", "completed", "green"),
    PlanStatus.FAILED:          Look("✗", "failed", "red"),
})
STANDING_LOOKS: Mapping[Standing, Look] = MappingProxyType({
    Standing.COMPLETED:   _drawn("completed", "green"),
    Standing.FAILED:      _drawn("failed", "red"),
    Standing.IN_PROGRESS: _drawn("in_progress", "blue"),
    Standing.NOT_STARTED: _drawn("not_started", "dim"),
})
RUN_LOOKS: Mapping[RunState, Look] = MappingProxyType({
    RunState.COMPLETED:         Look("✓", "completed", "green"),
    RunState.FAILED:            Look("✗", "failed", "red"),
    RunState.AWAITING_FEEDBACK: Look("!", "awaiting feedback", "bold magenta"),
    RunState.IN_PROGRESS:       Look("◐", "in progress", "blue"),
})
# fmt: on


def span(gap: timedelta) -> str:
    """A length of time, as short as it can be told.

    >>> span(timedelta(seconds=5.4)), span(timedelta(seconds=761)), span(timedelta(hours=5))
    ('5s', '12m41s', '5h00m')
    >>> span(timedelta(days=3, hours=2)), span(timedelta(seconds=-1))
    ('3d02h', '0s')
    """
    seconds = max(0, round(gap.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE:02}s"
    if seconds < DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE:02}m"
    return f"{seconds // DAY}d{seconds % DAY // HOUR:02}h"


def ago(at: datetime, now: datetime) -> str:
    """When something was, seen from now.

    >>> noon = datetime.fromisoformat("2030-01-01T12:00:00Z")
    >>> ago(noon, noon), ago(noon, noon + timedelta(minutes=3)), ago(noon, noon + timedelta(2))
    ('just now', '3 min ago', '2 days ago')
    """
    seconds = int((now - at).total_seconds())
    for unit, most, name in ((1, MINUTE, "s"), (MINUTE, HOUR, " min"), (HOUR, DAY, " h")):
        if seconds < most:
            return f"{seconds // unit}{name} ago" if seconds >= unit * 2 else _barely(name)
    return f"{seconds // DAY} days ago" if seconds >= 2 * DAY else "yesterday"


def _barely(name: str) -> str:
    return {"s": "just now", " min": "1 min ago", " h": "1 h ago"}[name]
