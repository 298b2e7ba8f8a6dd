"""Terminal view of a run: stages with progress bars, and steps of active stages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.cli.terminal.bars import (
    bar_line,
    segmented_bar,
    status_text,
    with_failed,
)
from waybook.cli.terminal.console import (
    Viewport,
    board_foot,
    board_panel,
    one_line,
    plain_table,
    visible_rows,
)
from waybook.core.shown import Shown
from waybook.dag.model import ProgressStatus, RunState
from waybook.plan.progress import percent

STATUS_WIDTH, MIN_NAME_WIDTH = 13, 12
_MIN_WIDTH_FOR_BARS, _MIN_WIDTH_FOR_LONG_BARS, _MIN_WIDTH_FOR_WORKERS = 72, 110, 92
_SHORT_BAR, _LONG_BAR, _WORKERS_WIDTH = 10, 16, 18
#: If the column of names would be narrower than this, the column of holders is left out.
_MIN_NAME_LENGTH = 22
RUN_FIXED_ROWS = 5

Counts = Mapping[Shown, int]
#: A run or stage, as in the view `run`.
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayRow:
    name: Text
    status: Text = field(default_factory=Text)
    bar: Counts = field(default_factory=dict)
    figures: Text = field(default_factory=Text)
    holders: Text = field(default_factory=Text)
    is_current: bool = False
    is_chosen: bool = False


def run_display(board: Body, frame: Viewport) -> RenderableType:
    inner, stages = frame.width - 4, board["stages"]
    heading = Text.assemble(
        status_text(board["state"], board["failedSteps"]), "  ", (board["name"], "bold")
    )
    source = f"{board['dagName']}, version {board['version']}, with {', '.join(board['models'])}"
    source = f"{source}; {documents_available(board)}"
    done, total = (board["dagProgress"][f"{name}Stages"] for name in ("completed", "total"))
    counts = Counter(Shown(s["state"]) for s in stages)
    parts: list[RenderableType] = [
        one_line(heading),
        one_line(Text(source, style="dim")),
        bar_line(f"{done} of {total} stages  ", counts, percent(done, total), inner),
    ]
    if frame.height is not None and frame.height <= RUN_FIXED_ROWS:
        return Group(*parts[: frame.height])
    foot = board_foot(board, frame, _matters(board))
    rows = None if frame.height is None else frame.height - RUN_FIXED_ROWS - len(foot)
    lines = display_rows(board, is_expanded=rows is None)
    here = next((number for number, line in enumerate(lines) if line.is_current), 0)
    if frame.chosen is not None:
        here = min(frame.chosen, len(lines) - 1)
        lines[here] = replace(lines[here], is_chosen=True)
    shown, above, below = visible_rows(lines, rows, here)
    shown = [*_left_out(above, "above"), *shown, *_left_out(below, "below")]
    return board_panel(frame, board["runId"], [*parts, _table(shown, inner), *foot])


def count_lines(board: Body) -> int:
    return len(display_rows(board))


def documents_available(board: Body) -> str:
    expected = board["documentsExpected"]
    total = "unknown" if expected is None else expected
    return f"{board['documentsAvailable']} of {total} documents available"


def display_rows(board: Body, *, is_expanded: bool = False) -> list[DisplayRow]:
    lines = []
    for stage in board["stages"]:
        lines.append(_stage_line(board, stage))
        if is_expanded or stage["status"] in {ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED}:
            lines += _step_lines(board, stage)
    return lines


def _stage_line(board: Body, stage: Body) -> DisplayRow:
    slug, steps = stage["stageSlug"], stage["steps"] or []
    waits, name = slug == board.get("awaitingFeedback"), stage["name"]
    suffix = "" if name.casefold() == slug.casefold() else f"  {name}"
    progress = stage["progress"]
    figures = Text(f"{stage['totalSteps']} steps", style="dim")
    if steps and progress is not None:
        done = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
        figures = with_failed(done, progress["failedSteps"])
    expected, there = stage["documentsExpected"], stage["documentsAvailable"]
    documents = Text(style="" if there == expected else "dim")
    if expected or there:
        documents.append(f"{there}{'' if expected is None else f' of {expected}'} documents")
    return DisplayRow(
        name=Text.assemble((slug, "bold" if steps else "dim"), (suffix, "dim")),
        status=status_text(stage["state"]),
        bar=Counter(Shown(step["state"]) for step in steps),
        figures=figures,
        holders=documents,
        is_current=waits,
    )


def _step_lines(board: Body, stage: Body) -> Iterator[DisplayRow]:
    slug = stage["stageSlug"]
    steps = stage["steps"] or []
    is_open = (s["stepKey"] for s in steps if s["status"] != ProgressStatus.COMPLETED)
    here = next(is_open, None)
    for step in steps:
        place = (slug, step["stepKey"])
        workers = [w["name"] for w in board["workers"] if (w["stageSlug"], w["stepKey"]) == place]
        quiet = "dim" if step["status"] == ProgressStatus.NOT_STARTED else ""
        jobs = step["jobs"]
        total = jobs["done"] + jobs["active"] + jobs["failed"]
        figures = with_failed(f"{jobs['done']} of {total} jobs", jobs["failed"])
        if not total:
            figures = Text(step["jobsExpected"], style="dim")
        yield DisplayRow(
            name=Text(f"  {step['name']}", style=quiet),
            status=status_text(step["state"]),
            bar={
                Shown.DONE: jobs["done"],
                Shown.FAILED: jobs["failed"],
                Shown.RUNNING: min(len(workers), jobs["active"]),
                Shown.TODO: max(0, jobs["active"] - len(workers)),
            },
            figures=figures,
            holders=Text(", ".join(dict.fromkeys(workers)), style="dim"),
            is_current=step["stepKey"] == here and stage["status"] != ProgressStatus.COMPLETED,
        )


def _left_out(count: int, where: str) -> list[DisplayRow]:
    return [DisplayRow(name=Text(f"… {count} {where}", style="dim"))] if count else []


def _table(lines: Sequence[DisplayRow], width: int) -> Table:
    figures = max((line.figures.cell_len for line in lines), default=0)
    longest = max((cell_len(line.name.plain) for line in lines), default=0)
    names, bar, workers_width = _widths(width, figures, longest)
    table = plain_table(show_header=False)
    for cells in (names, STATUS_WIDTH, bar, figures, workers_width):
        if cells:
            table.add_column(no_wrap=True, overflow="ellipsis", width=cells)
    for line in lines:
        drawn = segmented_bar(line.bar, bar) if any(line.bar.values()) else Text()
        bars, more = [drawn] if bar else [], [line.holders] if workers_width else []
        style = "reverse" if line.is_chosen else None
        table.add_row(line.name, line.status, *bars, line.figures, *more, style=style)
    return table


def _widths(width: int, figures: int, longest: int) -> tuple[int, int, int]:
    bar = _LONG_BAR if width >= _MIN_WIDTH_FOR_LONG_BARS else _SHORT_BAR
    bar = bar if width >= _MIN_WIDTH_FOR_BARS else 0
    room = width - STATUS_WIDTH - figures - 4 - (bar + 2 if bar else 0)
    workers_width = _WORKERS_WIDTH if width >= _MIN_WIDTH_FOR_WORKERS else 0
    if workers_width and room - workers_width - 2 < min(longest, _MIN_NAME_LENGTH):
        workers_width = 0
    room -= workers_width + 2 if workers_width else 0
    return max(MIN_NAME_WIDTH, min(room, longest)), bar, workers_width


def _matters(board: Body) -> list[Text]:
    slug = board.get("awaitingFeedback")
    if slug is not None:
        ask = Text.assemble(("! ", "bold magenta"), f"{slug} is complete and needs your feedback")
        command = f'  waybook feedback {board["runId"]} {slug} "…"'
        return [ask, Text(command, style="dim")]
    if board["status"] == RunState.CANCELED:
        end = f"⊘ {board['canceledBy']} canceled the run: {board['reason']}"
        return [Text(" ".join(end.split()), style="dim")]
    if board["status"] == RunState.FAILED:
        message = "✗ some jobs failed and have no attempts left; reset them: waybook run retry"
        return [Text(f"{message} {board['runId']}", style="red")]
    return []
