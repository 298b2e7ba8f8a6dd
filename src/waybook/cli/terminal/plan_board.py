"""Terminal view of a plan: progress bar, counts, and steps with timelines.

The view is never higher than the given height.
"""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.app.queries.audit import event_label
from waybook.app.queries.plans.plan import PlanDetail
from waybook.app.queries.timeline import Axis, Span, spans_of, time_spent
from waybook.cli.terminal.bars import bar_line, status_counts, status_text, style_of
from waybook.cli.terminal.console import (
    Viewport,
    board_foot,
    board_panel,
    one_line,
    visible_rows,
)
from waybook.core.durations import format_duration
from waybook.core.shown import Shown
from waybook.plan.model import Step, StepStatus


def timeline_bar(spans: Sequence[Span], axis: Axis, width: int) -> Text:
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


def plan_display(board: PlanDetail, frame: Viewport) -> RenderableType:
    inner, progress = frame.width - 4, board.progress
    label = f"{progress.done} of {progress.total} done  "
    state = status_text(board.shown, progress.failed)
    parts: list[RenderableType] = [
        one_line(Text.assemble(state, "  ", (board.plan.name, "bold"))),
        bar_line(label, board.state_counts, progress.percent, inner),
    ]
    if frame.height is not None and frame.height <= PLAN_FIXED_ROWS:
        return Group(*parts[: frame.height])
    last = board.history[0] if board.history else None
    event = f"{last.session or last.actor} {event_label(last.event, last.action)}" if last else ""
    foot = board_foot(board, frame, _matters(board), (last.at, event) if last else None)
    rows = None if frame.height is None else frame.height - PLAN_FIXED_ROWS - len(foot)
    parts += [status_counts(board.state_counts, inner), _steps(board, inner, rows, frame), *foot]
    return board_panel(frame, board.plan.id, parts)


def _steps(board: PlanDetail, width: int, rows: int | None, frame: Viewport) -> Table:
    spans = spans_of(board.status_changes, board.now)
    axis = Axis([span for step_spans in spans.values() for span in step_spans])
    holders, timeline, names = _columns(board, width, frame)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", width=width)
    table.add_column("#", justify="right", width=_NUMBER_WIDTH)
    table.add_column("step", no_wrap=True, overflow="ellipsis", width=names)
    table.add_column("status", no_wrap=True, width=STATUS_WIDTH)
    table.add_column("time", justify="right", no_wrap=True, width=_TIME_WIDTH)
    if holders:
        table.add_column("by", no_wrap=True, overflow="ellipsis", width=holders)
    if timeline:
        table.add_column(f"timeline {format_duration(axis.worked)}", no_wrap=True, width=timeline)
    steps = board.plan.steps
    places = {step.status: place for place, step in reversed([*enumerate(steps)])}
    active = [places[status] for status in _ACTIVE_STEP if status in places]
    # Keep this row visible: an active step, else the next pending step, else the end.
    here = min(active, default=places.get(StepStatus.PENDING, len(steps)))
    shown, above, below = visible_rows(steps, rows, here)
    if above:
        table.add_row("", Text(f"… {above} above", style="dim"))
    for step in shown:
        step_spans = spans.get(step.id, [])
        time = Text(format_duration(time_spent(step_spans)) if step_spans else "", style="dim")
        style = "dim" if step.status in {StepStatus.PENDING, StepStatus.SKIPPED} else ""
        name = Text(board.name_of(step), style=style)
        cells: list[RenderableType] = [str(step.order), name, _status(board, step), time]
        cells += [Text(_holder(step), style="dim")] if holders else []
        cells += [timeline_bar(step_spans, axis, timeline)] if timeline else []
        table.add_row(*cells)
    if below:
        table.add_row("", Text(f"… {below} below", style="dim"))
    return table


def _columns(board: PlanDetail, width: int, frame: Viewport) -> tuple[int, int, int]:
    """Return the widths of the columns for holders, timeline and names."""
    steps = board.plan.steps
    name = max((cell_len(board.name_of(step)) for step in steps), default=0)
    holder = max((cell_len(_holder(step)) for step in steps), default=0)
    room = width - _NUMBER_WIDTH - STATUS_WIDTH - _TIME_WIDTH - 4
    wide = width >= _MIN_WIDTH_FOR_HOLDERS
    holders = max(2, min(holder, _MAX_HOLDER_WIDTH)) if frame.holders or wide else 0
    room -= holders + 1 if holders else 0
    if width < _MIN_WIDTH_FOR_TIMELINE or (holders and not wide):
        return holders, 0, max(MIN_NAME_WIDTH, room)
    names = max(MIN_NAME_WIDTH, min(name, room * 3 // 5))
    return holders, room - names - 1, names


def _status(board: PlanDetail, step: Step) -> Text:
    look = status_text(board.states[step.id])
    if step.attempt > 1 and step.status is StepStatus.IN_PROGRESS:
        look.append(f" #{step.attempt}")
    return look


def _holder(step: Step) -> str:
    return step.held_session or step.held_by or ""


def _matters(board: PlanDetail) -> list[Text]:
    if board.review is not None:
        summary = " ".join(board.review.summary.split())
        ask = Text.assemble(("! ", "bold magenta"), summary)
        return [ask, Text(f"  decide: waybook review {board.plan.id}", style="dim")]
    if board.plan.fail_reason:
        if board.plan.canceled:
            return [Text(f"canceled: {board.plan.fail_reason}", style="dim")]
        return [Text(f"✗ {board.plan.fail_reason}", style="red")]
    silent = (item for item in board.stalled if board.states[item[0].id] is Shown.STALLED)
    for step, gap in silent:
        silence = format_duration(gap)
        message = f"▲ step {step.order} has been silent for {silence}; any agent can retry it"
        return [Text(message, style="yellow")]
    return []
