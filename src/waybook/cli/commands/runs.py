"""`waybook runs` and `waybook run`: list runs, and show one run once or live."""

import contextlib
import json

import click
from rich.console import Console
from rich.text import Text

from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_list import OPEN, RunFilter, RunSummary, list_runs, resolve_run
from waybook.app.request.page_urls import run_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option, list_options
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app, start_hint
from waybook.cli.terminal.bars import RUN_STYLES, segmented_bar
from waybook.cli.terminal.console import (
    Viewport,
    fitted_table,
    live_viewport,
    show_live,
    usage_line,
)
from waybook.cli.terminal.run_board import run_display
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.page_address import current_base_url
from waybook.plan.model import StepStatus
from waybook.plan.progress import progress_json

BAR_WIDTH = 15


@click.command()
@list_options("Include completed and canceled runs.")
@database_options
def runs_command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the runs, newest activity first."""
    settings = load_settings(flags)
    wanted = RunFilter(state=None if closed_too else OPEN)
    runs = run_in_app(settings, lambda here: list_runs(here.call, wanted, limit)).runs
    if as_json:
        base_url = current_base_url(settings)
        print_json([_as_json(run, base_url) for run in runs])
        return
    console = get_console()
    if runs:
        shown = [name for name, least in COLUMNS.items() if console.width >= least]
        rows = [[row[name] for name in shown] for row in map(_row, runs)]
        console.print(fitted_table(shown, rows, console.width, least=12))
    else:
        console.print("No run is open." if not closed_too else "There are no runs yet.")
        console.print("Agents start runs with start_run. Workflows: waybook dag list")


#: Minimum terminal width for each column.
COLUMNS = {
    "id": 0,
    "run": 0,
    "of": 100,
    "status": 0,
    "": 132,
    "stages": 0,
    "steps": 110,
    "activity": 72,
}


def _row(run: RunSummary) -> dict[str, Text]:
    failed = sum(stage.failed > 0 for stage in run.stages)
    counts = {
        StepStatus.COMPLETED: run.stages_done,
        StepStatus.FAILED: failed,
        StepStatus.IN_PROGRESS: len(run.stages) - run.stages_done - failed,
        StepStatus.PENDING: run.stages_total - len(run.stages),
    }
    return {
        "id": Text(short_id(run.id), style="dim"),
        "run": Text(run.name),
        "of": Text(run.compiled_dag.dag.slug),
        "status": RUN_STYLES[run.state].text(),
        "": segmented_bar(counts, BAR_WIDTH),
        "stages": Text(f"{run.stages_done} of {run.stages_total}"),
        "steps": _stage_progress(run),
        "activity": Text(format_age(run.updated_at, run.now), style="dim"),
    }


def _stage_progress(run: RunSummary) -> Text:
    stage = run.current or run.awaiting
    if stage is None:
        return Text()
    text = Text(f"{stage.slug} {stage.closed} of {run.steps_of(stage.slug)}")
    return text.append(f", {stage.failed} failed", style="red") if stage.failed else text


def _as_json(run: RunSummary, base_url: str) -> dict[str, object]:
    return {
        "runId": short_id(run.id),
        "name": run.name,
        "dagSlug": run.compiled_dag.dag.slug,
        "version": run.compiled_dag.version,
        "status": str(run.state),
        "completedStages": run.stages_done,
        "totalStages": run.stages_total,
        "progress": progress_json(run.steps_done, run.steps_total),
        "currentStage": run.current.slug if run.current else None,
        "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
        "runUrl": run_url(short_id(run.id), base_url),
        "stages": [
            {
                "stageSlug": stage.slug,
                "completedSteps": stage.closed,
                "totalSteps": run.steps_of(stage.slug),
                "failedSteps": stage.failed,
            }
            for stage in run.stages
        ],
        "createdAt": run.created_at.isoformat(),
        "createdBy": run.created_by,
        "lastActivityAt": run.updated_at.isoformat(),
    }


MAX_INPUT_LENGTH = 300


@click.command()
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Refresh live until the run completes.")
@export_options
@json_option
@database_options
def run_command(*, run: str | None, watch: bool, as_json: bool, **flags: object) -> None:
    """Show the progress of a run.

    RUN is an id, an id prefix, or part of the name; optional if only one run is open.
    Read-only.
    """
    exports = pop_requested_exports(flags)
    settings = load_settings(flags)
    if exports or as_json:
        board = run_in_app(settings, lambda here: _read_board(here, run, RunInclude.NOTHING))
        if exports:
            write_exports(load("waybook.app.queries.diagrams:run_drawing")(board), exports)
        else:
            print_json(board.full_report, tight=True)
        return
    console = get_console()
    live = watch and console.is_terminal
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command without an error.
        board = run_in_app(settings, lambda here: _watch(here, run, console, live=live))
        console.print(run_display(board, Viewport(width=console.width)))
        console.print(_format_input(board))
        if board.awaiting is not None:
            place = run_url(short_id(board.run.id), current_base_url(settings))
            console.print(Text.assemble(("page", "dim"), f"   {place}"))
            if hint := start_hint(settings):
                console.print(Text(f"       {hint}", style="dim"))
        if board.run.usage.results:
            console.print(usage_line(board.run.usage))


async def _read_board(here: AppSession, text: str | None, include: RunInclude) -> RunDetail:
    run = await resolve_run(here.call, text)
    return await read_run_detail(here.call, run.id, include)


async def _watch(here: AppSession, text: str | None, console: Console, *, live: bool) -> RunDetail:
    board = await _read_board(here, text, RunInclude.BOARD)
    if not live or board.is_closed:
        return board
    return await show_live(
        console,
        board,
        lambda b: run_display(b, live_viewport(console)),
        lambda b: read_run_detail(here.call, b.run.id, RunInclude.BOARD),
    )


def _format_input(board: RunDetail) -> Text:
    run_input = board.input_text
    text = run_input if isinstance(run_input, str) else json.dumps(run_input, ensure_ascii=False)
    normalized = " ".join(text.split())
    shown = (
        normalized if len(normalized) <= MAX_INPUT_LENGTH else f"{normalized[:MAX_INPUT_LENGTH]} …"
    )
    return Text.assemble(("input", "dim"), f"  {shown}")
