"""Terminal view of a run: stages with progress bars, and steps of active stages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.runs.run import RunDetail
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
from waybook.dag.model import ProgressStatus
from waybook.dag.progress.report import StageReport
from waybook.plan.progress import percent

STATUS_WIDTH, MIN_NAME_WIDTH = 13, 12
_MIN_WIDTH_FOR_BARS, _MIN_WIDTH_FOR_LONG_BARS, _MIN_WIDTH_FOR_WORKERS = 72, 110, 92
_SHORT_BAR, _LONG_BAR, _WORKERS_WIDTH = 10, 16, 18
#: If the column of names would be narrower than this, the column of holders is left out.
_MIN_NAME_LENGTH = 22
RUN_FIXED_ROWS = 5

Counts = Mapping[Shown, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DisplayRow:
    name: Text
    status: Text = field(default_factory=Text)
    bar: Counts = field(default_factory=dict)
    figures: Text = field(default_factory=Text)
    holders: Text = field(default_factory=Text)
    is_current: bool = False


def run_display(board: RunDetail, frame: Viewport) -> RenderableType:
    inner = frame.width - 4
    heading = Text.assemble(
        status_text(board.shown, len(board.run.failed_steps)), "  ", (board.run.name, "bold")
    )
    models = dict.fromkeys(model for s in board.run.stages.values() for model in s.models)
    dag, version = board.compiled_dag.dag, board.compiled_dag.version
    source = f"{dag.name}, version {version}, with {', '.join(models)}"
    source = f"{source}; {documents_available(board)}"
    done, total = board.stages_done, board.stages_total
    counts = Counter(map(board.state_of_stage, _stages(board)))
    parts: list[RenderableType] = [
        one_line(heading),
        one_line(Text(source, style="dim")),
        bar_line(f"{done} of {total} stages  ", counts, percent(done, total), inner),
    ]
    if frame.height is not None and frame.height <= RUN_FIXED_ROWS:
        return Group(*parts[: frame.height])
    last = board.history[-1] if board.history else None
    event = ""
    if last is not None:
        about = f": {last.subject}" if last.subject else ""
        label = event_label(last.event, last.action, RUN)
        event = f"{last.session or last.actor} {label}{about}"
    foot = board_foot(board, frame, _matters(board), (last.at, event) if last else None)
    rows = None if frame.height is None else frame.height - RUN_FIXED_ROWS - len(foot)
    lines = list(_lines(board, is_expanded=rows is None))
    here = next((number for number, line in enumerate(lines) if line.is_current), 0)
    shown, above, below = visible_rows(lines, rows, here)
    shown = [*_left_out(above, "above"), *shown, *_left_out(below, "below")]
    return board_panel(frame, board.run.id, [*parts, _table(shown, inner), *foot])


def count_lines(board: RunDetail) -> int:
    return len(list(_lines(board, is_expanded=False)))


def documents_available(board: RunDetail) -> str:
    expected = board.documents_expected
    total = "unknown" if expected is None else expected
    return f"{board.documents_available} of {total} documents available"


def _stages(board: RunDetail) -> list[StageReport]:
    by_slug = {stage["stageSlug"]: stage for stage in board.report["stages"]}
    return [by_slug[slug] for slug in board.compiled_dag.order]


def _lines(board: RunDetail, *, is_expanded: bool) -> Iterator[_DisplayRow]:
    for stage in _stages(board):
        yield _stage_line(board, stage)
        if is_expanded or stage["status"] in {ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED}:
            yield from _step_lines(board, stage)


def _stage_line(board: RunDetail, stage: StageReport) -> _DisplayRow:
    slug, steps = stage["stageSlug"], stage["steps"] or []
    waits, name = slug == board.awaiting, board.compiled_dag.stages[slug].name
    suffix = "" if name.casefold() == slug.casefold() else f"  {name}"
    progress = stage["progress"]
    figures = Text(f"{len(board.compiled_dag.graphs[slug].order)} steps", style="dim")
    if steps and progress is not None:
        done = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
        figures = with_failed(done, progress["failedSteps"])
    expected, there = stage["documentsExpected"], stage["documentsAvailable"]
    documents = Text(style="" if there == expected else "dim")
    if expected or there:
        documents.append(f"{there}{'' if expected is None else f' of {expected}'} documents")
    return _DisplayRow(
        name=Text.assemble((slug, "bold" if steps else "dim"), (suffix, "dim")),
        status=status_text(board.state_of_stage(stage)),
        bar=Counter(map(board.state_of_step, steps)),
        figures=figures,
        holders=documents,
        is_current=waits,
    )


def _step_lines(board: RunDetail, stage: StageReport) -> Iterator[_DisplayRow]:
    slug = stage["stageSlug"]
    steps = stage["steps"] or []
    is_open = (s["stepKey"] for s in steps if s["status"] is not ProgressStatus.COMPLETED)
    here = next(is_open, None)
    for step in steps:
        key = step["stepKey"]
        workers = [w.name for w in board.workers if (w.stage, w.step_key) == (slug, key)]
        quiet = "dim" if step["status"] is ProgressStatus.NOT_STARTED else ""
        jobs = step["jobs"]
        total = jobs["done"] + jobs["active"] + jobs["failed"]
        figures = with_failed(f"{jobs['done']} of {total} jobs", jobs["failed"])
        if not total:
            counts = board.expected.get(slug)
            figures = Text(counts.jobs(key).jobs_text if counts else "", style="dim")
        yield _DisplayRow(
            name=Text(f"  {board.compiled_dag.graphs[slug].steps[key].name}", style=quiet),
            status=status_text(board.state_of_step(step)),
            bar={
                Shown.DONE: jobs["done"],
                Shown.FAILED: jobs["failed"],
                Shown.RUNNING: min(len(workers), jobs["active"]),
                Shown.TODO: max(0, jobs["active"] - len(workers)),
            },
            figures=figures,
            holders=Text(", ".join(dict.fromkeys(workers)), style="dim"),
            is_current=key == here and stage["status"] is not ProgressStatus.COMPLETED,
        )


def _left_out(count: int, where: str) -> list[_DisplayRow]:
    return [_DisplayRow(name=Text(f"… {count} {where}", style="dim"))] if count else []


def _table(lines: Sequence[_DisplayRow], width: int) -> Table:
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
        table.add_row(line.name, line.status, *bars, line.figures, *more)
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


def _matters(board: RunDetail) -> list[Text]:
    slug = board.awaiting
    if slug is not None:
        ask = Text.assemble(("! ", "bold magenta"), f"{slug} is complete and needs your feedback")
        command = f'  waybook feedback {board.run.id} {slug} "…"'
        return [ask, Text(command, style="dim")]
    if board.shown is Shown.CANCELED:
        end = f"⊘ {board.run.canceled_by} canceled the run: {board.run.cancel_reason}"
        return [Text(" ".join(end.split()), style="dim")]
    if board.run.failed_steps:
        message = "✗ some jobs failed and have no attempts left; reset them with retry_failed"
        return [Text(message, style="red")]
    return []
