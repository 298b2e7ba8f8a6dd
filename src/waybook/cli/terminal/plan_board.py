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
    Viewport,
    board_foot,
    board_panel,
    one_line,
    seconds_text,
    visible_rows,
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
STATUS_WIDTH, _TIME_WIDTH, _NUMBER_WIDTH = 16, 7, 3
_MAX_HOLDER_WIDTH, MIN_NAME_WIDTH = 16, 12
PLAN_FIXED_ROWS = 6
_ACTIVE_STEP = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})


def plan_display(board: Body, frame: Viewport) -> RenderableType:
    inner, counts = frame.width - 4, board["counts"]
    label = f"{counts['done']} of {counts['total']} done  "
    drawn = counts_of(board["stateCounts"])
    state = status_text(board["state"], counts.get("failed", 0))
    parts: list[RenderableType] = [
        one_line(Text.assemble(state, "  ", (board["name"], "bold"))),
        bar_line(label, drawn, board["progress"], inner),
    ]
    if frame.height is not None and frame.height <= PLAN_FIXED_ROWS:
        return Group(*parts[: frame.height])
    foot = board_foot(board, frame, _matters(board))
    rows = None if frame.height is None else frame.height - PLAN_FIXED_ROWS - len(foot)
    parts += [status_counts(drawn, inner), _steps(board, inner, rows, frame), *foot]
    return board_panel(frame, board["planId"], parts)


def _steps(board: Body, width: int, rows: int | None, frame: Viewport) -> Table:
    holders, timeline, names = _columns(board, width, frame)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", width=width)
    table.add_column("#", justify="right", width=_NUMBER_WIDTH)
    table.add_column("step", no_wrap=True, overflow="ellipsis", width=names)
    table.add_column("status", no_wrap=True, width=STATUS_WIDTH)
    table.add_column("time", justify="right", no_wrap=True, width=_TIME_WIDTH)
    if holders:
        table.add_column("by", no_wrap=True, overflow="ellipsis", width=holders)
    if timeline:
        worked = seconds_text(board["workedSeconds"])
        table.add_column(f"timeline {worked}", no_wrap=True, width=timeline)
    steps = board["steps"]
    shown, above, below = visible_rows(steps, rows, current_place(board, frame))
    if above:
        table.add_row("", Text(f"… {above} above", style="dim"))
    for step in shown:
        time = Text(seconds_text(step["seconds"]) if step["spans"] else "", style="dim")
        style = "dim" if step["status"] in {StepStatus.PENDING, StepStatus.SKIPPED} else ""
        name = Text(step["title"], style=style)
        cells: list[RenderableType] = [str(step["stepOrder"]), name, _status(step), time]
        cells += [Text(step["holder"] or "", style="dim")] if holders else []
        cells += [timeline_bar(step["spans"], timeline)] if timeline else []
        chosen = frame.chosen is not None and steps[frame.chosen] is step
        table.add_row(*cells, style="reverse" if chosen else None)
    if below:
        table.add_row("", Text(f"… {below} below", style="dim"))
    return table


def current_place(board: Body, frame: Viewport) -> int:
    """Return the row to keep visible: the chosen or an active step, else the next, else the end."""
    steps = board["steps"]
    if frame.chosen is not None:
        return frame.chosen
    places = {step["status"]: place for place, step in reversed([*enumerate(steps)])}
    active = [places[status] for status in _ACTIVE_STEP if status in places]
    return int(min(active, default=places.get(StepStatus.PENDING, len(steps))))


def _columns(board: Body, width: int, frame: Viewport) -> tuple[int, int, int]:
    """Return the widths of the columns for holders, timeline and names."""
    steps = board["steps"]
    name = max((cell_len(step["title"]) for step in steps), default=0)
    holder = max((cell_len(step["holder"] or "") for step in steps), default=0)
    room = width - _NUMBER_WIDTH - STATUS_WIDTH - _TIME_WIDTH - 4
    wide = width >= _MIN_WIDTH_FOR_HOLDERS
    holders = max(2, min(holder, _MAX_HOLDER_WIDTH)) if frame.holders or wide else 0
    room -= holders + 1 if holders else 0
    if width < _MIN_WIDTH_FOR_TIMELINE or (holders and not wide):
        return holders, 0, max(MIN_NAME_WIDTH, room)
    names = max(MIN_NAME_WIDTH, min(name, room * 3 // 5))
    return holders, room - names - 1, names


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
