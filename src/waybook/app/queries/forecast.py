"""Forecasts the time and cost of plans and runs from finished steps, jobs and runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from waybook.app.request.request_context import RequestContext
from waybook.core.durations import (
    MIN_RUNS,
    MIN_UNITS,
    Forecast,
    estimate_median,
    estimate_sum,
    make_forecast,
)
from waybook.dag.expansion.counts import Count, StageCounts, add_counts
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.plan.model import CLOSED_PLAN, Plan, Step, StepStatus
from waybook.run.model import MAX_JOBS, CompiledDag, Run
from waybook.store.driver.queries import Row, first_column
from waybook.store.runs import work as runs_store


def _scaled(history: Sequence[Row], jobs: int) -> Forecast | None:
    runs = [row for row in history if row.jobs]
    costs = [row.cost_micros * jobs / row.jobs for row in runs if row.cost_micros is not None]
    return make_forecast(
        estimate_median([row.seconds * jobs / row.jobs for row in runs]),
        estimate_median(costs),
        f"median of the last {len(runs)} runs of this workflow, in proportion to the jobs",
    )


def run_forecast(
    run: Run,
    expected: Mapping[str, StageCounts],
    stages: int,
    history: Sequence[Row],
    intervals: Sequence[float],
    costs: Sequence[int],
) -> Forecast | None:
    """Forecast the time and cost of the rest of a run.

    The forecast is based on earlier runs of the workflow or, if these are too few, on the finished
    jobs of the run itself.
    """
    if run.completed_at or run.canceled_at or len(expected) < stages:
        return None
    total = add_counts(counts.total_jobs for counts in expected.values()).known
    left = 0 if total is None else total - sum(step.done for step in run.steps.values())
    if left < 1:
        return None
    if sum(row.jobs > 0 for row in history) >= MIN_RUNS:
        return _scaled(history, left)
    return make_forecast(
        estimate_sum(intervals, left),
        estimate_sum(costs, left),
        f"{len(intervals)} finished jobs of this run",
    )


def job_intervals(started: datetime | None, jobs: Sequence[Row]) -> list[float]:
    """Return the seconds from the end of each completed job to the end of the next one."""
    ends = sorted(
        job.completed_at for job in jobs if job.completed_at and job.status == "completed"
    )
    # Count the time from the start to the first job only if the list contains all jobs.
    is_complete = bool(jobs) and jobs[0].total == len(jobs)
    times = [started, *ends] if started is not None and is_complete else ends
    return [(end - start).total_seconds() for start, end in pairwise(times)]


class StartPreview(NamedTuple):
    #: Number of jobs of each stage, by the slug of the stage.
    stages: Mapping[str, Count]
    total: Count
    forecast: Forecast | None
    runs: int

    @property
    def too_large(self) -> str | None:
        """Return the first stage that has too many jobs, if there is one."""
        return next((s for s, jobs in self.stages.items() if (jobs.known or 0) > MAX_JOBS), None)


def start_preview(
    compiled_dag: CompiledDag,
    models: Sequence[str],
    history: Sequence[Row],
    *,
    first: str | None = None,
    copied_models: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> StartPreview:
    """Return the number of jobs, and a forecast, of a run that has not started.

    A copy of a run starts at stage `first`. The stages in `copied_models` need no jobs, because
    the copy already has their documents.
    """
    structure = valid_structure(compiled_dag.dag, compiled_dag.graphs)
    counts = structure_counts(structure, {**copied_models, first or compiled_dag.order[0]: models})
    stages = {
        slug: counts[slug].total_jobs if slug in counts else Count()
        for slug in compiled_dag.order
        if slug not in copied_models
    }
    total = add_counts(stages.values())
    return StartPreview(
        stages=stages,
        total=total,
        forecast=_scaled(history, total.known) if total.known else None,
        runs=len(history),
    )


async def read_finished_runs(ctx: RequestContext, slug: str) -> Sequence[Row]:
    (rows,) = await ctx.read(runs_store.SQL["finished_runs"](slug=slug, run_id=None))
    return rows


async def read_known_models(ctx: RequestContext) -> list[str]:
    (rows,) = await ctx.read(runs_store.SQL["known_models"]())
    return first_column(rows)


#: Statuses of steps that still have to be worked on.
_OPEN_STEPS = (StepStatus.PENDING, StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT)


def plan_forecast(plan: Plan, history: Sequence[Row]) -> Forecast | None:
    if plan.status in CLOSED_PLAN:
        return None
    return steps_forecast([*plan.steps_with_status(*_OPEN_STEPS)], history)


def steps_forecast(left: Sequence[Step], history: Sequence[Row]) -> Forecast | None:
    """Forecast the time and cost of steps, or return None if there is too little history.

    Finished steps of the same plan, or with the same titles, are preferred as history.
    """
    titles = {step.title for step in left if step.title}
    similar = [row for row in history if row.is_own or row.title in titles]
    basis = "finished steps of this plan and steps with the same title"
    if len(similar) < MIN_UNITS:
        similar, basis = [*history], "finished steps of recent plans"
    costs = [row.cost_micros for row in similar if row.cost_micros is not None]
    return make_forecast(
        estimate_sum([row.seconds for row in similar], len(left)),
        estimate_sum(costs, len(left)),
        f"{len(similar)} {basis}",
    )
