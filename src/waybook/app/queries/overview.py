"""Overview: plans and runs that need a person, are in trouble, are running, or have finished."""

from collections.abc import Iterable
from datetime import datetime

from waybook.app.queries.overview_entries import (
    BlockedStep,
    FinishedWork,
    Overview,
    RunFailure,
    RunningPlan,
    RunningRun,
    SectionTotal,
    SectionTotals,
    TroubledPlan,
    TroubledRun,
    WaitingWork,
)
from waybook.app.queries.plans.plan_list import EXCERPT_LENGTH, CurrentStep
from waybook.app.queries.runs.run_list import load_definitions
from waybook.app.request.request_context import RequestContext
from waybook.plan.progress import Progress
from waybook.plan.states import PlanStatus, StepStatus
from waybook.run.model import CompiledDag
from waybook.store.overview import (
    MAX_COUNTED,
    FinishedRow,
    LastLook,
    OverviewTotals,
    RunningRow,
    TroubledRow,
    TroubleKind,
    WaitingRow,
    max_read,
    max_troubled,
    overview_statements,
)

__all__ = ["LastLook"]

SUMMARY_LENGTH = 200
MAX_ENTRIES = 8

STATUS_BY_INITIAL = {status.value[0]: status for status in StepStatus}
Dags = dict[tuple[str, int], CompiledDag]


async def read_overview(
    ctx: RequestContext, look: LastLook, *, most: int = MAX_ENTRIES
) -> Overview:
    patience = ctx.services.review_reminder
    waiting, troubled, running, finished, counted = await ctx.read(
        *overview_statements(
            look,
            most=most,
            wide=EXCERPT_LENGTH,
            long=SUMMARY_LENGTH,
            patience=patience.total_seconds() if patience else None,
        )
    )
    totals: OverviewTotals = counted[0]
    dags = await _definitions(ctx, waiting, running)
    return Overview(
        needs=[item for row in waiting if (item := _waiting(row, dags)) is not None],
        trouble=[_troubled(row, totals.now) for row in troubled],
        running=[_running(row, dags) for row in running],
        finished=[_finished(row) for row in finished],
        totals=_section_totals(totals, troubled[0].kinds if troubled else "", most),
        has_work=totals.has_work,
        since=totals.since,
        now=totals.now,
    )


async def _definitions(
    ctx: RequestContext, waiting: Iterable[WaitingRow], running: Iterable[RunningRow]
) -> Dags:
    keys = {row.dag for row in waiting if row.stages is not None}
    keys.update(row.dag for row in running if row.status is None)
    return await load_definitions(ctx, keys)


def _section_totals(counted: OverviewTotals, kinds: str, most: int) -> SectionTotals:
    """Return the totals per section. Work in trouble is counted in no other section."""
    open_plans, runs = kinds.count(TroubleKind.OPEN), kinds.count(TroubleKind.RUN)
    failed = kinds.count(TroubleKind.FAILED)
    highest = max(
        kinds.count(TroubleKind.STALLED),
        open_plans,
        failed + kinds.count(TroubleKind.FAILED_EARLIER),
        runs,
    )
    running = counted.open - counted.awaiting - open_plans - runs
    return SectionTotals(
        in_trouble=SectionTotal(len(kinds), highest >= max_troubled(most)),
        running=_total(running, is_minimum=counted.open >= max_read(most)),
        finished=_total(counted.finished - failed, is_minimum=counted.finished >= max_read(most)),
    )


def _total(total: int, *, is_minimum: bool) -> SectionTotal:
    """Limit a total to `MAX_COUNTED`, and mark a limited total as a minimum."""
    return SectionTotal(max(0, min(total, MAX_COUNTED)), is_minimum or total > MAX_COUNTED)


def _waiting(row: WaitingRow, dags: Dags) -> WaitingWork | None:
    """Return the overview entry, or None if no stage of the run can be continued."""
    if row.stages is None:
        return WaitingWork(row, None)
    dag = dags[row.dag]
    for slug in dag.order:
        if slug in row.stages and slug in dag.continued_stages:
            return WaitingWork(row, dag.stages[slug].name or slug)
    return None


def _troubled(row: TroubledRow, now: datetime) -> TroubledPlan | TroubledRun:
    if row.status is None:
        return TroubledRun(row, [RunFailure(*failure) for failure in row.failures or ()])
    failed, stalled, inactive_since = list[BlockedStep](), None, None
    for since, step_id, order, title, holder, reason in row.steps or ():
        step = BlockedStep(step_id, order, title, holder, reason)
        if since is None:
            failed.append(step)
        else:
            stalled, inactive_since = step, datetime.fromisoformat(since)
    return TroubledPlan(row, PlanStatus(row.status), now, failed, stalled, inactive_since)


def _running(row: RunningRow, dags: Dags) -> RunningPlan | RunningRun:
    if row.status is None:
        dag, started = dags[row.dag], row.stages or ()
        # If several stages are in progress, the last of them is the current stage.
        stages = [dag.stages[slug].name or slug for slug in dag.order if slug in started]
        return RunningRun(row, stages[-1] if stages else None, dag.steps_total)
    progress = _progress(row.statuses or "")
    if not row.active_steps:
        return RunningPlan(row, progress, None, ())
    # A step that awaits input comes before a step in progress.
    steps = sorted(row.active_steps)
    holders = sorted({holder for is_held, _, _, holder in steps if is_held and holder})
    _, order, title, _ = steps[0]
    return RunningPlan(row, progress, CurrentStep(order, title), holders)


def _finished(row: FinishedRow) -> FinishedWork:
    return FinishedWork(row, None if row.statuses is None else _progress(row.statuses))


def _progress(initials: str) -> Progress:
    return Progress({STATUS_BY_INITIAL[i]: initials.count(i) for i in dict.fromkeys(initials)})
