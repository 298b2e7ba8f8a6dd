"""Forecasts the time and cost of plans and runs from earlier plans and runs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from waybook.app.request.request_context import RequestContext
from waybook.core.forecasts import MIN_OTHER, MIN_SAME, Forecast, estimate, make_forecast
from waybook.dag.expansion.inputs import Count, StageCounts, add_counts
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.plan.model import CLOSED_PLAN, Plan, StepStatus
from waybook.run.model import MAX_JOBS, CompiledDag, Run
from waybook.store.driver.queries import Row, first_column
from waybook.store.runs import work as runs_store


def run_forecast(
    run: Run, expected: Mapping[str, StageCounts], stages: int, history: Sequence[Row], spent: float
) -> Forecast | None:
    """Forecast the time and cost of the rest of a run, which has taken `spent` seconds so far.

    The pace of the run itself counts as much as that of the earlier runs after a tenth of its jobs.
    """
    if run.completed_at or run.canceled_at or len(expected) < stages:
        return None
    total = add_counts(counts.total_jobs for counts in expected.values()).known
    done = sum(step.done for step in run.steps.values())
    if total is None or total <= done:
        return None
    # Some of the jobs of a copy were done in another run.
    own = None if run.copied_from or not done else (spent / done, run.usage.cost_micros / done)
    return _jobs_forecast(history, total - done, own, done / (done + total / 10))


def _jobs_forecast(
    history: Sequence[Row], left: int, own: tuple[float, float] | None = None, share: float = 0
) -> Forecast | None:
    runs = [row for row in history if row.jobs]
    times, costs = ([row[place] / row.jobs for row in runs if row[place]] for place in (0, 1))
    time, cost = own or (0, 0)
    return make_forecast(
        estimate(times, left, least=MIN_SAME, own=time, own_share=share),
        estimate(costs, left, least=MIN_SAME, own=cost, own_share=share),
        "earlier runs of this workflow",
        known=len(runs),
        needed=MIN_SAME,
    )


class StartPreview(NamedTuple):
    #: Number of jobs of each stage, by the slug of the stage.
    stages: Mapping[str, Count]
    total: Count
    forecast: Forecast | None

    @property
    def too_large(self) -> str | None:
        """Return the first stage that has too many jobs, if there is one."""
        return next((s for s, jobs in self.stages.items() if (jobs.known or 0) > MAX_JOBS), None)


_UNKNOWN_JOBS: Final = Forecast(too_early="the number of jobs is not known in advance")


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
        forecast=_jobs_forecast(history, total.known) if total.known else _UNKNOWN_JOBS,
    )


async def read_finished_runs(ctx: RequestContext, slug: str) -> Sequence[Row]:
    (rows,) = await ctx.read(runs_store.SQL["finished_runs"](slug=slug, run_id=None))
    return rows


async def read_known_models(ctx: RequestContext) -> list[str]:
    (rows,) = await ctx.read(runs_store.SQL["known_models"]())
    return first_column(rows)


_STEPS_OF_EQUAL_WEIGHT: Final = 2
#: Statuses of steps that still have to be worked on.
_OPEN_STEPS = (StepStatus.PENDING, StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT)


def plan_forecast(plan: Plan, history: Sequence[Row]) -> Forecast | None:
    if plan.status in CLOSED_PLAN:
        return None
    return steps_forecast(sum(1 for _ in plan.steps_with_status(*_OPEN_STEPS)), history)


def steps_forecast(left: int, history: Sequence[Row]) -> Forecast | None:
    """Forecast the time and cost of the steps that are left of a plan.

    Earlier plans with the same steps are preferred. The pace of the plan itself counts more with
    every finished step: as much as that of the earlier plans after two steps.
    """
    if not left:
        return None
    own = next((row for row in history if row.is_own), None)
    plans = [row for row in history if not row.is_own]
    same = [row for row in plans if row.is_same]
    source, needed = "earlier plans", MIN_OTHER
    if len(same) >= MIN_SAME:
        plans, source, needed = same, "earlier plans with the same steps", MIN_SAME
    done = own.steps if own else 0
    share = done / (done + _STEPS_OF_EQUAL_WEIGHT)
    seconds, cost = (
        estimate(
            [row[place] / row.steps for row in plans if row[place]],
            left,
            least=needed,
            own=(own[place] or 0) / done if own else 0,
            own_share=share,
        )
        for place in (0, 1)
    )
    # An agent that has reported no cost so far will hardly begin to do so.
    is_free = own is not None and not own.cost_micros
    cost = None if is_free else cost
    return make_forecast(seconds, cost, source, known=len(plans), needed=needed)
