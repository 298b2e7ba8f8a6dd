"""The timeline of a step as a line of a terminal."""

from collections.abc import Sequence

from rich.text import Text

from waybook.cli.looks import STEP_STYLES
from waybook.plan.states import StepStatus
from waybook.usecases.timeline import Axis, Span


def timeline_bar(spans: Sequence[Span], axis: Axis, width: int) -> Text:
    """One step's spans as a line of this width at most."""
    cells: list[StepStatus | None] = [None] * width
    for span in spans:
        first, last = axis.column(span.start, width), axis.column(span.end, width)
        for column in range(first, max(first + 1, last)):
            cells[column] = span.status
    line = Text(no_wrap=True)
    for status in cells:
        if status is None:
            line.append(" ")
        else:
            glyph = "┄" if status is StepStatus.AWAITING_INPUT else "━"
            line.append(glyph, style=STEP_STYLES[status].style.removeprefix("bold "))
    line.rstrip()
    return line
