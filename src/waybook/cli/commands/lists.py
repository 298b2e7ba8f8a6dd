"""Commands that list plans and runs: `plans` and `runs`."""

from collections.abc import Sequence
from functools import partial

import click
from rich.table import Table
from rich.text import Text

from waybook.app.queries.work_list import (
    OPEN,
    ListOrder,
    PlanFilter,
    PlanSummary,
    RunFilter,
    RunSummary,
    list_runs,
    plan_summaries,
)
from waybook.app.request.caller import review_url, run_url
from waybook.cli.options import limit_option
from waybook.cli.runtime import AppSession, Outcome, app_command, get_console
from waybook.cli.terminal.bars import segmented_bar, status_text, with_failed
from waybook.cli.terminal.console import column_widths, fitted_table
from waybook.core.durations import format_age
from waybook.core.shown import Shown
from waybook.page_address import current_base_url
from waybook.plan.model import PlanState
from waybook.plan.progress import progress_json

_MIN_WIDTH_FOR_BARS, _PLAN_BAR_WIDTH, _RUN_BAR_WIDTH = 100, 20, 15
#: If plan names would be narrower than this, the list leaves out its last columns.
_MIN_NAME_WIDTH = 24
_MIN_COLUMNS = 3
#: Minimum terminal width at which each column of the list of runs is shown.
_RUN_COLUMNS = {
    "id": 0,
    "run": 0,
    "of": 100,
    "status": 0,
    "": 132,
    "stages": 0,
    "steps": 110,
    "activity": 72,
}


_all_option = partial(click.option, "--all", "closed_too", is_flag=True)


@app_command(_all_option(help="Include completed and failed plans."), limit_option(100))
async def plans_command(here: AppSession, *, closed_too: bool, limit: int) -> Outcome:
    """List the plans, newest activity first."""
    wanted = PlanFilter(order=ListOrder.ACTIVITY, all=closed_too)
    plans = (await plan_summaries(here.call, wanted, limit=limit)).plans
    if not plans:
        none = "There are no plans yet." if closed_too else "No open plans."
        hint = "Agents create plans with create_research_plan. Try: waybook demo"
        return Outcome([], [Text(none), Text(hint)])
    base_url = current_base_url(here.app.settings)
    return Outcome([_plan_json(plan, base_url) for plan in plans], [_plan_table(plans)])


def _plan_table(plans: Sequence[PlanSummary]) -> Table:
    width = get_console().width
    bars = width >= _MIN_WIDTH_FOR_BARS
    rows: Sequence[Sequence[Text]] = [_plan_row(plan, bars=bars) for plan in plans]
    heads = ["id", "plan", "status", *(["progress", ""] if bars else ["progress"]), "activity"]
    taken = column_widths(heads, rows)
    # People recognize plans by name, so leave out the last columns until names have enough space.
    while (
        width - sum(taken) + taken[1] - 2 * (len(taken) - 1) < min(taken[1], _MIN_NAME_WIDTH)
        and len(taken) > _MIN_COLUMNS
    ):
        taken.pop()
    rows = [row[: len(taken)] for row in rows]
    # `fitted_table` counts a gap of two cells after each column. The last column needs no gap.
    return fitted_table(heads[: len(taken)], rows, width + 2, least=1)


def _plan_row(plan: PlanSummary, *, bars: bool) -> list[Text]:
    progress = plan.progress
    return [
        Text(plan.id, style="dim"),
        Text(plan.name),
        status_text(plan.shown),
        *([segmented_bar(plan.state_counts, _PLAN_BAR_WIDTH)] if bars else []),
        with_failed(f"{progress.done} of {progress.total}", progress.failed),
        Text(format_age(plan.updated_at, plan.now), style="dim"),
    ]


def _plan_json(plan: PlanSummary, base_url: str) -> dict[str, object]:
    waits, progress = plan.state is PlanState.AWAITING_REVIEW, plan.progress
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.state),
        "progress": progress.percent,
        "counts": {
            "done": progress.done,
            "total": progress.total,
            **{str(s): n for s, n in progress.counts.items()},
        },
        **({"reviewUrl": review_url(plan.id, base_url)} if waits else {}),
        "createdAt": plan.created_at.isoformat(),
        "createdBy": plan.created_by,
        "lastActivityAt": plan.updated_at.isoformat(),
    }


@app_command(_all_option(help="Include completed and canceled runs."), limit_option(100))
async def runs_command(here: AppSession, *, closed_too: bool, limit: int) -> Outcome:
    """List the runs, newest activity first."""
    runs, _ = await list_runs(here.call, RunFilter(state=None if closed_too else OPEN), limit)
    if not runs:
        none = "There are no runs yet." if closed_too else "No run is open."
        hint = "Agents start runs with start_run. Workflows: waybook dag list"
        return Outcome([], [Text(none), Text(hint)])
    width, base_url = get_console().width, current_base_url(here.app.settings)
    shown = [name for name, least in _RUN_COLUMNS.items() if width >= least]
    rows = [[row[name] for name in shown] for row in map(_run_row, runs)]
    table = fitted_table(shown, rows, width, least=12)
    return Outcome([_run_json(run, base_url) for run in runs], [table])


def _run_row(run: RunSummary) -> dict[str, Text]:
    failed, stage = sum(stage.failed > 0 for stage in run.stages), run.current or run.awaiting
    counts = {
        Shown.DONE: run.stages_done,
        Shown.FAILED: failed,
        Shown.RUNNING: len(run.stages) - run.stages_done - failed,
        Shown.TODO: run.stages_total - len(run.stages),
    }
    steps = Text()
    if stage is not None:
        done = f"{stage.slug} {stage.closed} of {run.steps_of(stage.slug)}"
        steps = with_failed(done, stage.failed)
    return {
        "id": Text(run.id, style="dim"),
        "run": Text(run.name),
        "of": Text(run.compiled_dag.dag.slug),
        "status": status_text(run.shown),
        "": segmented_bar(counts, _RUN_BAR_WIDTH),
        "stages": Text(f"{run.stages_done} of {run.stages_total}"),
        "steps": steps,
        "activity": Text(format_age(run.updated_at, run.now), style="dim"),
    }


def _run_json(run: RunSummary, base_url: str) -> dict[str, object]:
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": run.compiled_dag.dag.slug,
        "version": run.compiled_dag.version,
        "status": str(run.state),
        "completedStages": run.stages_done,
        "totalStages": run.stages_total,
        "progress": progress_json(run.steps_done, run.steps_total),
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
