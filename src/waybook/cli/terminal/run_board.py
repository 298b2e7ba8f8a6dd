"""Terminal view of a run: stages with progress bars, and steps of active stages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from waybook.cli.terminal.bars import bar_line, segmented_bar, status_text, with_failed
from waybook.cli.terminal.console import GAP, Line, Viewport, draw_board, one_line
from waybook.core.shown import Shown
from waybook.dag.model import ProgressStatus, RunState
from waybook.plan.progress import percent

_STATUS_WIDTH, _MIN_NAME_WIDTH, _HOLDERS_WIDTH = 13, 12, 18
_MIN_WIDTH_FOR_BARS, _MIN_WIDTH_FOR_LONG_BARS, _MIN_WIDTH_FOR_HOLDERS = 72, 110, 92
_SHORT_BAR, _LONG_BAR = 10, 16
#: If the column of names would be narrower than this, the column of holders is left out.
_MIN_NAME_LENGTH = 22

#: A run or stage, as in the view `run`.
Body = Mapping[str, Any]


def run_display(board: Body, frame: Viewport) -> RenderableType:
    inner, stages = frame.width - 4, board["stages"]
    source = f"{board['dagName']}, version {board['version']}, with {', '.join(board['models'])}"
    source = f"{source}; {documents_available(board)}"
    done, total = (board["dagProgress"][f"{name}Stages"] for name in ("completed", "total"))
    counts = Counter(Shown(s["state"]) for s in stages)
    state = status_text(board["state"], board["failedSteps"])
    head = [
        one_line(Text.assemble(state, "  ", (board["name"], "bold"))),
        one_line(Text(source, style="dim")),
        bar_line(f"{done} of {total} stages  ", counts, percent(done, total), inner),
    ]
    bar = _LONG_BAR if inner >= _MIN_WIDTH_FOR_LONG_BARS else _SHORT_BAR
    lines = run_lines(board, bar, is_expanded=frame.height is None)
    columns = _columns(lines, inner, bar if inner >= _MIN_WIDTH_FOR_BARS else 0)
    return draw_board(board, frame, head, columns, lines, _matters(board))


def _columns(lines: Sequence[Line], width: int, bar: int) -> dict[str, int]:
    longest, figures = (max(line.cells[place].cell_len for line in lines) for place in (0, 3))
    room = width - sum(n + GAP for n in (_STATUS_WIDTH, bar, figures) if n)
    left = room - _HOLDERS_WIDTH - GAP
    has_holders = width >= _MIN_WIDTH_FOR_HOLDERS and left >= min(longest, _MIN_NAME_LENGTH)
    return {
        "stage": max(_MIN_NAME_WIDTH, min(left if has_holders else room, longest)),
        "status": _STATUS_WIDTH,
        "progress": bar,
        "done": figures,
        "documents, agents": _HOLDERS_WIDTH if has_holders else 0,
    }


def documents_available(board: Body) -> str:
    expected = board["documentsExpected"]
    total = "unknown" if expected is None else expected
    return f"{board['documentsAvailable']} of {total} documents available"


def run_lines(board: Body, bar: int = _LONG_BAR, *, is_expanded: bool = False) -> list[Line]:
    """Return a line for each stage and, below the active stages, for each step."""
    lines = []
    for stage in board["stages"]:
        lines.append(_stage_line(board, stage, bar))
        if is_expanded or stage["status"] in {ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED}:
            steps = stage["steps"] or []
            is_open = (step for step in steps if step["status"] != ProgressStatus.COMPLETED)
            here = None if stage["status"] == ProgressStatus.COMPLETED else next(is_open, None)
            lines += [Line(_step_cells(board, stage, step, bar), step is here) for step in steps]
    return lines


def _stage_line(board: Body, stage: Body, bar: int) -> Line:
    slug, steps, name = stage["stageSlug"], stage["steps"] or [], stage["name"]
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
    counts = Counter(Shown(step["state"]) for step in steps)
    cells = [
        Text.assemble((slug, "bold" if steps else "dim"), (suffix, "dim")),
        status_text(stage["state"]),
        segmented_bar(counts, bar) if steps else Text(),
        figures,
        documents,
    ]
    return Line(cells, is_current=slug == board.get("awaitingFeedback"))


def _step_cells(board: Body, stage: Body, step: Body, bar: int) -> list[Text]:
    place = (stage["stageSlug"], step["stepKey"])
    workers = [w["name"] for w in board["workers"] if (w["stageSlug"], w["stepKey"]) == place]
    done, active, failed = (step["jobs"][name] for name in ("done", "active", "failed"))
    total, running = done + active + failed, min(len(workers), active)
    counts = {
        Shown.DONE: done,
        Shown.FAILED: failed,
        Shown.RUNNING: running,
        Shown.TODO: active - running,
    }
    quiet = "dim" if step["status"] == ProgressStatus.NOT_STARTED else ""
    figures = with_failed(f"{done} of {total} jobs", failed)
    return [
        Text(f"  {step['name']}", style=quiet),
        status_text(step["state"]),
        segmented_bar(counts, bar) if total else Text(),
        figures if total else Text(step["jobsExpected"], style="dim"),
        Text(", ".join(dict.fromkeys(workers)), style="dim"),
    ]


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
