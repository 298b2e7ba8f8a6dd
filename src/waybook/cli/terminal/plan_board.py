"""Terminal view of a plan: progress bar, counts, and steps with timelines.

The view is never higher than the given height.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.terminal.bars import bar_line, counts_of, status_counts, status_text
from waybook.cli.terminal.console import (
    GAP,
    Line,
    Viewport,
    draw_board,
    one_line,
    seconds_text,
)
from waybook.cli.terminal.rows import style_of
from waybook.plan.model import StepStatus

#: A plan or step, as in the view `plan`.
Body = Mapping[str, Any]
#: Number of equal parts into which the view divides the time axis.
TICKS = 1_000


def timeline_bar(spans: Sequence[tuple[int, int, str]], width: int) -> Text:
    """Return a bar from the places of spans on the time axis, in `TICKS`."""
    cells: list[str | None] = [None] * width
    for start, end, span_status in spans:
        first, last = min(width - 1, round(start * width / TICKS)), round(end * width / TICKS)
        for column in range(first, max(first + 1, last)):
            cells[column] = span_status
    line = Text(no_wrap=True)
    for status in cells:
        if status is None:
            line.append(" ")
        else:
            glyph = "┄" if status == StepStatus.AWAITING_INPUT else "━"
            line.append(glyph, style=style_of(status).removeprefix("bold "))
    line.rstrip()
    return line


#: Minimum terminal widths at which the holder column and the timeline are shown.
_MIN_WIDTH_FOR_HOLDERS = 92
_MIN_WIDTH_FOR_TIMELINE = 72
_STATUS_WIDTH, _TIME_WIDTH, _MAX_HOLDER_WIDTH, _MIN_NAME_WIDTH = 16, 7, 16, 16
_ACTIVE_STEP = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})


def plan_display(board: Body, frame: Viewport) -> RenderableType:
    inner, counts, drawn = frame.width - 4, board["counts"], counts_of(board["stateCounts"])
    state = status_text(board["state"], counts.get("failed", 0))
    label = f"{counts['done']} of {counts['total']} done  "
    head = [
        one_line(Text.assemble(state, "  ", (board["name"], "bold"))),
        bar_line(label, drawn, board["progress"], inner),
        status_counts(drawn, inner),
    ]
    columns = _columns(board, inner, frame)
    *_, timeline = columns.values()
    current = current_place(board)
    lines = [
        Line(_cells(step, timeline), is_current=place == current)
        for place, step in enumerate(board["steps"])
    ]
    return draw_board(board, frame, head, columns, lines, _matters(board))


def _cells(step: Body, timeline: int) -> list[Text]:
    quiet = "dim" if step["status"] in {StepStatus.PENDING, StepStatus.SKIPPED} else ""
    return [
        Text(_name(step), style=quiet),
        _status(step),
        Text(seconds_text(step["seconds"]) if step["spans"] else "", style="dim"),
        Text(step["holder"] or "", style="dim"),
        timeline_bar(step["spans"], timeline) if timeline else Text(),
    ]


def _name(step: Body) -> str:
    return f"{step['stepOrder']:3} {step['title']}"


def current_place(board: Body) -> int:
    """Return the row to keep visible: an active step, else the next, else the last."""
    steps = board["steps"]
    places = {step["status"]: place for place, step in reversed([*enumerate(steps)])}
    active = [places[status] for status in _ACTIVE_STEP if status in places]
    return int(min(active, default=places.get(StepStatus.PENDING, len(steps) - 1)))


def _columns(board: Body, width: int, frame: Viewport) -> dict[str, int]:
    """Return the widths of the columns. Names and timeline share the space that is left."""
    name = max((cell_len(_name(step)) for step in board["steps"]), default=0)
    holder = max((cell_len(step["holder"] or "") for step in board["steps"]), default=0)
    is_wide = width >= _MIN_WIDTH_FOR_HOLDERS
    holders = max(2, min(holder, _MAX_HOLDER_WIDTH)) if frame.holders or is_wide else 0
    room = width - sum(n + GAP for n in (_STATUS_WIDTH, _TIME_WIDTH, holders) if n)
    names, timeline = room, 0
    if is_wide or (width >= _MIN_WIDTH_FOR_TIMELINE and not holders):
        names = max(_MIN_NAME_WIDTH, min(name, room * 3 // 5))
        timeline = room - names - GAP
    worked = f"timeline {seconds_text(board['workedSeconds'])}"
    return {
        "  # step": max(_MIN_NAME_WIDTH, names),
        "status": _STATUS_WIDTH,
        "time": _TIME_WIDTH,
        "by": holders,
        worked: timeline,
    }


def _status(step: Body) -> Text:
    look = status_text(step["state"])
    if step["attempt"] > 1 and step["status"] == StepStatus.IN_PROGRESS:
        look.append(f" #{step['attempt']}")
    if "waitsFor" in step:
        look.append(f" by {step['waitsFor']}")
    return look


def _matters(board: Body) -> list[Text]:
    if board["openReview"]:
        summary = " ".join(board["openReview"]["summary"].split())
        ask = Text.assemble(("! ", "bold magenta"), summary)
        return [ask, Text(f"  decide: waybook review {board['planId']}", style="dim")]
    if board["reason"]:
        if board["canceled"]:
            return [Text(f"canceled: {board['reason']}", style="dim")]
        return [Text(f"✗ {board['reason']}", style="red")]
    if sleeping := [w for w in board.get("workers", ()) if "resumesAt" in w]:
        shown = ", ".join(f"{w['agent']} resumes {w['resumesAt'][11:16]} UTC" for w in sleeping)
        return [Text(shown, style="dim")]
    for step in board["steps"]:
        if "silentSeconds" in step:
            silence = seconds_text(step["silentSeconds"])
            number = step["stepOrder"]
            message = f"▲ step {number} has been silent for {silence}; any agent can retry it"
            return [Text(message, style="yellow")]
    return []


def step_display(board: Body, place: int) -> RenderableType:
    """Return the details of one step."""
    step = board["steps"][place]
    shown = {
        "status": status_text(step["state"]).plain,
        "attempt": step["attempt"],
        "by": step["holder"],
        "time": seconds_text(step["seconds"]),
        "reason": step.get("reason"),
        "id": step["stepId"],
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in shown.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(str(value)))
    return Group(Text(f"{step['stepOrder']}. {step['title']}", style="bold"), Text(), table)
