"""`waybook runs`: the runs at a glance."""

import asyncio
from collections import Counter

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from waybook.cli.bar import segmented_bar
from waybook.cli.inside import get_console, load_settings, open_app
from waybook.cli.looks import RUN_STYLES
from waybook.cli.options import database_options, json_option
from waybook.cli.plans import unique_prefix_length
from waybook.cli.printing import print_json
from waybook.plan.states import StepStatus
from waybook.record.spans import format_age
from waybook.settings import Settings
from waybook.usecases.find_runs import RunSummary, find_runs
from waybook.usecases.links import run_url

BAR_WIDTH = 15


@click.command()
@click.option("--all", "closed_too", is_flag=True, help="Completed runs too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="At most so many (100).")
@json_option
@database_options
def command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the runs, newest activity first."""
    settings = load_settings(flags)
    runs = asyncio.run(_find(settings, closed_too=closed_too, limit=limit))
    if as_json:
        print_json([_as_json(run, settings.base_url) for run in runs])
        return
    console = get_console()
    if runs:
        console.print(_table(runs, console.width))
    else:
        console.print("No run is open." if not closed_too else "There are no runs yet.")
        console.print("An agent starts one with start_run; what of: waybook dag list")


async def _find(settings: Settings, *, closed_too: bool, limit: int) -> list[RunSummary]:
    async with open_app(settings) as here:
        return await find_runs(here.call, open_only=not closed_too, limit=limit)


def _table(runs: list[RunSummary], width: int) -> Table:
    short = unique_prefix_length([run.id for run in runs])
    rows = [_row(run, short) for run in runs]
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


#: Each column's heading, and from which width of the terminal on there is room for it.
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


def _row(run: RunSummary, short: int) -> dict[str, Text]:
    return {
        "id": Text(run.id[:short], style="dim"),
        "run": Text(run.name),
        "of": Text(run.compiled_dag.dag.slug),
        "status": RUN_STYLES[run.state].text(),
        "bar": segmented_bar(_counts(run), BAR_WIDTH),
        "stages": Text(f"{run.completed_stages} of {run.total_stages}"),
        "steps": stage_progress_text(run),
        "activity": Text(format_age(run.updated_at, run.now), style="dim"),
    }


def _counts(run: RunSummary) -> Counter[StepStatus]:
    """The stages as parts of a bar."""
    failed = sum(stage.failed > 0 for stage in run.stages)
    done = run.completed_stages
    running = len(run.stages) - done - failed
    waiting = run.total_stages - len(run.stages)
    return Counter(
        {
            StepStatus.COMPLETED: done,
            StepStatus.FAILED: failed,
            StepStatus.IN_PROGRESS: running,
            StepStatus.PENDING: waiting,
        }
    )


def stage_progress_text(run: RunSummary) -> Text:
    """How far the stage that is worked on is: "synthesis 4 of 13, 1 failed"."""
    stage = run.current or run.awaiting
    if stage is None:
        return Text()
    said = Text(f"{stage.slug} {stage.closed} of {run.steps_of(stage.slug)}")
    return said.append(f", {stage.failed} failed", style="red") if stage.failed else said


def _as_json(run: RunSummary, base_url: str) -> dict[str, object]:
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": run.compiled_dag.dag.slug,
        "version": run.compiled_dag.version,
        "status": str(run.state),
        "completedStages": run.completed_stages,
        "totalStages": run.total_stages,
        "currentStage": run.current.slug if run.current else None,
        "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
        "runUrl": run_url(run.id, base_url),
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
