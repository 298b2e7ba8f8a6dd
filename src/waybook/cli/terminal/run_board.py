"""Terminal view of a run: stages with progress bars, and steps of active stages."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.runs.run import RunDetail, RunEvent
from waybook.cli.terminal.bars import PROGRESS_STYLES, RUN_STYLES, StatusStyle, segmented_bar
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.run_report import BAR_STATUS, UNKNOWN
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.dag.progress.report import StageReport, StepReport
from waybook.dag.statuses import ProgressStatus, RunState
from waybook.plan.progress import percent
from waybook.plan.states import StepStatus

STATUS_WIDTH, MIN_NAME_WIDTH = 13, 12
MIN_WIDTH_FOR_BARS, MIN_WIDTH_FOR_LONG_BARS, MIN_WIDTH_FOR_WORKERS = 72, 110, 92
SHORT_BAR, LONG_BAR, WORKERS_WIDTH = 10, 16, 18
#: Minimum length of a name. The worker column is left out instead of cutting names further.
MIN_NAME_LENGTH = 22
RUN_FIXED_ROWS = 5
MIN_ROWS_FOR_ELLIPSIS = 3

Counts = Mapping[StepStatus, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayRow:
    name: Text
    status: Text
    bar: Counts
    figures: Text
    holders: Text
    is_current: bool = False


def run_display(board: RunDetail, frame: Viewport) -> RenderableType:
    inner = frame.width - 4
    parts: list[RenderableType] = [_heading(board), _source(board), _bar_line(board, inner)]
    if frame.height is not None and frame.height <= RUN_FIXED_ROWS:
        return Group(*parts[: frame.height])
    foot = _foot(board, live=frame.live) if frame.foot and not frame.is_low else []
    rows = None if frame.height is None else frame.height - RUN_FIXED_ROWS - len(foot)
    is_expanded = rows is None
    parts += [_table(_window(list(_lines(board, is_expanded=is_expanded)), rows), inner), *foot]
    title = Text(f" waybook · {short_id(board.run.id)} ", style="dim")
    high = frame.height if frame.filled else None
    return Panel(Group(*parts), title=title, border_style="dim", width=frame.width, height=high)


def count_lines(board: RunDetail) -> int:
    return len(list(_lines(board, is_expanded=False)))


def _heading(board: RunDetail) -> Text:
    look = RUN_STYLES[board.state].text()
    return _line(Text.assemble(look, "  ", (board.run.name, "bold")))


def _source(board: RunDetail) -> Text:
    models = dict.fromkeys(model for s in board.run.stages.values() for model in s.models)
    dag, version = board.compiled_dag.dag, board.compiled_dag.version
    source = f"{dag.name}, version {version}, with {', '.join(models)}"
    return _line(Text(f"{source}; {documents_available(board)}", style="dim"))


def documents_available(board: RunDetail) -> str:
    expected = board.documents_expected
    total = "unknown" if expected is None else expected
    return f"{board.documents_available} of {total} documents available"


def _bar_line(board: RunDetail, width: int) -> Text:
    done, total = board.stages_done, board.stages_total
    counts = Counter(
        BAR_STATUS[stage["status"] or ProgressStatus.FAILED] for stage in _stages(board)
    )
    label, share = f"{done} of {total} stages  ", f"  {percent(done, total)} %"
    room = max(4, min(60, width - len(label) - len(share)))
    return Text.assemble((label, "bold"), segmented_bar(counts, room), (share, "bold"))


def _stages(board: RunDetail) -> list[StageReport]:
    by_slug = {stage["stageSlug"]: stage for stage in board.report["stages"]}
    return [by_slug[slug] for slug in board.compiled_dag.order]


def _lines(board: RunDetail, *, is_expanded: bool) -> Iterator[DisplayRow]:
    for stage in _stages(board):
        yield _stage_line(board, stage)
        if is_expanded or stage["status"] in {ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED}:
            yield from _step_lines(board, stage)


def _stage_line(board: RunDetail, stage: StageReport) -> DisplayRow:
    slug, status, steps = stage["stageSlug"], stage["status"], stage["steps"] or []
    look = UNKNOWN if status is None else PROGRESS_STYLES[status]
    waits = slug == board.awaiting
    counts = Counter(BAR_STATUS[step["status"]] for step in steps)
    return DisplayRow(
        name=_stage_name(board, slug, quiet=not steps),
        status=AWAITING_TEXT.text() if waits else look.text(),
        bar=counts,
        figures=_steps_done(stage) if steps else _to_come(board, slug),
        holders=_documents(stage),
        is_current=waits,
    )


AWAITING_TEXT = StatusStyle("!", "feedback", RUN_STYLES[RunState.AWAITING_FEEDBACK].style)


def _stage_name(board: RunDetail, slug: str, *, quiet: bool) -> Text:
    name = board.compiled_dag.stages[slug].name
    suffix = "" if name.casefold() == slug.casefold() else f"  {name}"
    return Text.assemble((slug, "dim" if quiet else "bold"), (suffix, "dim"))


def _steps_done(stage: StageReport) -> Text:
    progress = stage["progress"]
    if progress is None:
        return Text()
    text = Text(f"{progress['completedSteps']} of {progress['totalSteps']} steps")
    failed = progress["failedSteps"]
    return text.append(f", {failed} failed", style="red") if failed else text


def _to_come(board: RunDetail, slug: str) -> Text:
    return Text(f"{len(board.compiled_dag.graphs[slug].order)} steps", style="dim")


def _documents(stage: StageReport) -> Text:
    expected, there = stage["documentsExpected"], stage["documentsAvailable"]
    if not expected and not there:
        return Text()
    of = "" if expected is None else f" of {expected}"
    return Text(f"{there}{of} documents", style="" if there == expected else "dim")


def _step_lines(board: RunDetail, stage: StageReport) -> Iterator[DisplayRow]:
    slug = stage["stageSlug"]
    here = next((s["stepKey"] for s in stage["steps"] or [] if not _is_over(s)), None)
    for step in stage["steps"] or []:
        key = step["stepKey"]
        workers = [w.name for w in board.workers if (w.stage, w.step_key) == (slug, key)]
        quiet = "dim" if step["status"] is ProgressStatus.NOT_STARTED else ""
        yield DisplayRow(
            name=Text(f"  {board.compiled_dag.graphs[slug].steps[key].name}", style=quiet),
            status=PROGRESS_STYLES[step["status"]].text(),
            bar=_units_done(step, len(workers)),
            figures=_units(board, slug, step),
            holders=Text(", ".join(dict.fromkeys(workers)), style="dim"),
            is_current=key == here and stage["status"] is not ProgressStatus.COMPLETED,
        )


def _is_over(step: StepReport) -> bool:
    return step["status"] is ProgressStatus.COMPLETED


def _units_done(step: StepReport, working: int) -> Counts:
    jobs = step["jobs"]
    return {
        StepStatus.COMPLETED: jobs["done"],
        StepStatus.FAILED: jobs["failed"],
        StepStatus.IN_PROGRESS: min(working, jobs["active"]),
        StepStatus.PENDING: max(0, jobs["active"] - working),
    }


def _units(board: RunDetail, slug: str, step: StepReport) -> Text:
    jobs = step["jobs"]
    total = jobs["done"] + jobs["active"] + jobs["failed"]
    if not total:
        counts = board.expected.get(slug)
        return Text(counts.jobs(step["stepKey"]).jobs_text if counts else "", style="dim")
    text = Text(f"{jobs['done']} of {total} jobs")
    return text.append(f", {jobs['failed']} failed", style="red") if jobs["failed"] else text


def _window(lines: list[DisplayRow], rows: int | None) -> list[DisplayRow]:
    if rows is None or len(lines) <= rows:
        return lines
    room = rows - 2 if rows > MIN_ROWS_FOR_ELLIPSIS else rows
    here = next((number for number, line in enumerate(lines) if line.is_current), 0)
    first = max(0, min(here - room // 3, len(lines) - room))
    shown = lines[first : first + room]
    if room == rows:
        return shown
    below = len(lines) - first - room
    return [*_left_out(first, "above"), *shown, *_left_out(below, "below")]


def _left_out(count: int, where: str) -> list[DisplayRow]:
    text = Text(f"… {count} {where}", style="dim")
    nothing = Text()
    empty = DisplayRow(name=text, status=nothing, bar={}, figures=nothing, holders=nothing)
    return [empty] if count else []


def _table(lines: list[DisplayRow], width: int) -> Table:
    figures = max((line.figures.cell_len for line in lines), default=0)
    longest = max((cell_len(line.name.plain) for line in lines), default=0)
    names, bar, workers_width = _widths(width, figures, longest)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for cells in (names, STATUS_WIDTH, bar, figures, workers_width):
        if cells:
            table.add_column(no_wrap=True, overflow="ellipsis", width=cells)
    for line in lines:
        drawn = segmented_bar(line.bar, bar) if any(line.bar.values()) else Text()
        bars, more = [drawn] if bar else [], [line.holders] if workers_width else []
        table.add_row(line.name, line.status, *bars, line.figures, *more)
    return table


def _widths(width: int, figures: int, longest: int) -> tuple[int, int, int]:
    bar = LONG_BAR if width >= MIN_WIDTH_FOR_LONG_BARS else SHORT_BAR
    bar = bar if width >= MIN_WIDTH_FOR_BARS else 0
    room = width - STATUS_WIDTH - figures - 4 - (bar + 2 if bar else 0)
    workers_width = WORKERS_WIDTH if width >= MIN_WIDTH_FOR_WORKERS else 0
    if workers_width and room - workers_width - 2 < min(longest, MIN_NAME_LENGTH):
        workers_width = 0
    room -= workers_width + 2 if workers_width else 0
    return max(MIN_NAME_WIDTH, min(room, longest)), bar, workers_width


def _foot(board: RunDetail, *, live: bool) -> list[Text]:
    last = board.history[-1] if board.history else None
    ending = (
        [Text("   live ●  Ctrl-C to leave", style="dim")] if live and not board.is_closed else []
    )
    summary = f"{format_age(last.at, board.now)}: {_event_sentence(last)}" if last else ""
    lines = [*_matters(board), Text.assemble((summary, "dim"), *ending)]
    return [_line(text) for text in lines]


def _matters(board: RunDetail) -> list[Text]:
    slug = board.awaiting
    if slug is not None:
        ask = Text.assemble(("! ", "bold magenta"), f"{slug} is complete and needs your feedback")
        command = f'  waybook feedback {short_id(board.run.id)} {slug} "…"'
        return [ask, Text(command, style="dim")]
    if board.state is RunState.CANCELED:
        end = f"⊘ {board.run.canceled_by} canceled the run: {board.run.cancel_reason}"
        return [Text(" ".join(end.split()), style="dim")]
    if board.state is RunState.FAILED:
        message = "✗ some jobs failed and have no attempts left; reset them with retry_failed"
        return [Text(message, style="red")]
    return []


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _event_sentence(run_event: RunEvent) -> str:
    about = f": {run_event.subject}" if run_event.subject else ""
    label = event_label(run_event.event, run_event.action, RUN)
    return f"{run_event.session or run_event.actor} {label}{about}"
