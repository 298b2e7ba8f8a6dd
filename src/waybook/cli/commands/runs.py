"""`waybook runs` and `waybook run`: list runs, and show one run once or live."""

import asyncio
import contextlib
import json
from collections import Counter

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.runs.run_list import OPEN, RunFilter, RunSummary, list_runs, resolve_run
from waybook.app.request.page_urls import run_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option, list_options
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app, start_hint
from waybook.cli.terminal.bars import RUN_STYLES, segmented_bar
from waybook.cli.terminal.console import Viewport, live_viewport, show_live, usage_line
from waybook.cli.terminal.run_board import run_display
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.page_address import current_base_url
from waybook.plan.progress import progress_json
from waybook.plan.states import StepStatus
from waybook.settings import Settings

BAR_WIDTH = 15


@click.command()
@list_options("Include completed and canceled runs.")
@database_options
def runs_command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the runs, newest activity first."""
    settings = load_settings(flags)
    runs = asyncio.run(_find(settings, closed_too=closed_too, limit=limit))
    if as_json:
        base_url = current_base_url(settings)
        print_json([_as_json(run, base_url) for run in runs])
        return
    console = get_console()
    if runs:
        console.print(_table(runs, console.width))
    else:
        console.print("No run is open." if not closed_too else "There are no runs yet.")
        console.print("Agents start runs with start_run. Workflows: waybook dag list")


async def _find(settings: Settings, *, closed_too: bool, limit: int) -> list[RunSummary]:
    wanted = RunFilter(state=None if closed_too else OPEN)
    async with open_app(settings) as here:
        return (await list_runs(here.call, wanted, limit)).runs


def _table(runs: list[RunSummary], width: int) -> Table:
    rows = [_row(run) for run in runs]
    shown = [name for name, (_, least) in COLUMNS.items() if width >= least]
    taken = {
        name: max(cell_len(COLUMNS[name][0]), *(row[name].cell_len for row in rows))
        for name in shown
    }
    left = width - sum(cells for name, cells in taken.items() if name != "run") - 2 * len(shown)
    taken["run"] = min(taken["run"], max(12, left))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name, cells in taken.items():
        table.add_column(COLUMNS[name][0], no_wrap=True, overflow="ellipsis", width=cells)
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    return table


COLUMNS = {
    "id": ("id", 0),
    "run": ("run", 0),
    "of": ("of", 100),
    "status": ("status", 0),
    "bar": ("", 132),
    "stages": ("stages", 0),
    "steps": ("steps", 110),
    "activity": ("activity", 72),
}


def _row(run: RunSummary) -> dict[str, Text]:
    return {
        "id": Text(short_id(run.id), style="dim"),
        "run": Text(run.name),
        "of": Text(run.compiled_dag.dag.slug),
        "status": RUN_STYLES[run.state].text(),
        "bar": segmented_bar(_counts(run), BAR_WIDTH),
        "stages": Text(f"{run.stages_done} of {run.stages_total}"),
        "steps": stage_progress_text(run),
        "activity": Text(format_age(run.updated_at, run.now), style="dim"),
    }


def _counts(run: RunSummary) -> Counter[StepStatus]:
    failed = sum(stage.failed > 0 for stage in run.stages)
    done = run.stages_done
    running = len(run.stages) - done - failed
    waiting = run.stages_total - len(run.stages)
    return Counter(
        {
            StepStatus.COMPLETED: done,
            StepStatus.FAILED: failed,
            StepStatus.IN_PROGRESS: running,
            StepStatus.PENDING: waiting,
        }
    )


def stage_progress_text(run: RunSummary) -> Text:
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
    if exports:
        write_exports(asyncio.run(_drawing(settings, run)), exports)
        return
    if as_json:
        body = asyncio.run(_report(settings, run))
        print_json(body, tight=True)
        return
    console = get_console()
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command without an error.
        asyncio.run(_show(settings, run, console, live=watch and console.is_terminal))


async def _drawing(settings: Settings, text: str | None) -> object:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        detail = await read_run_detail(here.call, run.id, RunInclude.NOTHING)
        return load("waybook.app.queries.diagrams:run_drawing")(detail)


async def _report(settings: Settings, text: str | None) -> object:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        return (await read_run_detail(here.call, run.id, RunInclude.NOTHING)).full_report


async def _show(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        board = await read_run_detail(here.call, run.id, RunInclude.BOARD)
        if live and not board.is_closed:
            board = await show_live(
                console,
                board,
                lambda b: run_display(b, live_viewport(console)),
                lambda b: read_run_detail(here.call, b.run.id, RunInclude.BOARD),
            )
        console.print(run_display(board, Viewport(width=console.width)))
        console.print(_format_input(board))
        if board.awaiting is not None:
            place = run_url(short_id(board.run.id), current_base_url(settings))
            console.print(Text.assemble(("page", "dim"), f"   {place}"))
            if hint := start_hint(settings):
                console.print(Text(f"       {hint}", style="dim"))
        if board.run.usage.results:
            console.print(usage_line(board.run.usage))


def _format_input(board: RunDetail) -> Text:
    run_input = board.input_text
    text = run_input if isinstance(run_input, str) else json.dumps(run_input, ensure_ascii=False)
    normalized = " ".join(text.split())
    shown = (
        normalized if len(normalized) <= MAX_INPUT_LENGTH else f"{normalized[:MAX_INPUT_LENGTH]} …"
    )
    return Text.assemble(("input", "dim"), f"  {shown}")
