"""Overview: plans and runs that need a person, are in trouble, are running, or have finished."""

from collections import Counter
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
    by_user,
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
    max_troubled,
    overview_statements,
)

__all__ = ["LastLook"]

#: Maximum length in characters of the summary of a review, which is shown on one line.
SUMMARY_LENGTH = 200
#: Maximum number of entries in each section of the overview.
MAX_ENTRIES = 8

#: Statuses of steps with their first letters, which differ.
STATUS_INITIALS = tuple((status.value[0], status) for status in StepStatus)
#: Compiled workflow definitions by slug and version.
Dags = dict[tuple[str, int], CompiledDag]


async def read_overview(
    ctx: RequestContext, look: LastLook, *, most: int = MAX_ENTRIES
) -> Overview:
    """Return the overview, with up to `most` entries in each of its sections."""
    patience = ctx.services.review_reminder
    waiting, troubled, running, finished = await ctx.read(
        *overview_statements(
            look,
            most=most,
            wide=EXCERPT_LENGTH,
            long=SUMMARY_LENGTH,
            patience=patience.total_seconds() if patience else None,
        )
    )
    totals: OverviewTotals = finished[0].totals
    dags = await _definitions(ctx, waiting, running)
    return Overview(
        needs=[item for row in waiting if (item := _waiting(row, dags)) is not None],
        trouble=[_troubled(row, totals.now) for row in troubled],
        running=[_running(row, dags) for row in running],
        finished=[_finished(row) for row in finished if row.kind is not None],
        totals=_section_totals(totals, troubled[0].kinds if troubled else "", most),
        has_work=totals.has_work,
        since=totals.since,
        now=totals.now,
    )


async def _definitions(
    ctx: RequestContext, waiting: Iterable[WaitingRow], running: Iterable[RunningRow]
) -> Dags:
    """Return the workflow definitions of the runs; read those that are not cached."""
    keys = {row.dag for row in waiting if row.kind == "run"}
    keys.update(row.dag for row in running if row.kind == "run")
    return await load_definitions(ctx, keys)


def _section_totals(counted: OverviewTotals, kinds: str, most: int) -> SectionTotals:
    """Return the totals of the sections; plans and runs in trouble count only as such."""
    counts = Counter(kinds)
    open_plans, runs = counts[TroubleKind.OPEN], counts[TroubleKind.RUN]
    failed = counts[TroubleKind.FAILED]
    highest = max(
        counts[TroubleKind.STALLED],
        open_plans,
        failed + counts[TroubleKind.FAILED_EARLIER],
        runs,
    )
    running = max(0, counted.open_plans - open_plans) + max(
        0, counted.open_runs - counted.awaiting_runs - runs
    )
    finished = max(0, counted.finished_plans - failed) + counted.finished_runs
    return SectionTotals(
        in_trouble=SectionTotal(len(kinds), highest >= max_troubled(most)),
        running=SectionTotal(running, max(counted.open_plans, counted.open_runs) >= MAX_COUNTED),
        finished=SectionTotal(
            finished, max(counted.finished_plans, counted.finished_runs) >= MAX_COUNTED
        ),
    )


def _waiting(row: WaitingRow, dags: Dags) -> WaitingWork | None:
    """Return the entry of a review or run; None for a run without a stage that can be continued."""
    stage_name = None
    if row.kind == "run":
        dag = dags[row.dag].dag
        stage = next((dag.stage(slug) for slug in row.stages or () if dag.after(slug)), None)
        if stage is None:
            return None
        stage_name = stage.name or stage.slug
    return WaitingWork(
        kind=row.kind,
        id=row.id,
        name=row.name,
        since=row.since,
        is_overdue=row.is_overdue,
        summary=row.summary,
        step_order=row.step_order,
        stage_name=stage_name,
    )


def _troubled(row: TroubledRow, now: datetime) -> TroubledPlan | TroubledRun:
    if row.status is None or row.revision is None:
        failures = tuple(RunFailure(*failure) for failure in row.failures or ())
        return TroubledRun(id=row.id, name=row.name, at=row.updated_at, failures=failures)
    failed, stalled, inactive_since = list[BlockedStep](), None, None
    for since, step_id, order, title, holder, reason in row.steps or ():
        step = BlockedStep(step_id, order, title, holder, reason)
        if since is None:
            failed.append(step)
        else:
            stalled, inactive_since = step, datetime.fromisoformat(since)
    return TroubledPlan(
        id=row.id,
        name=row.name,
        plan_status=PlanStatus(row.status),
        revision=row.revision,
        at=row.updated_at,
        now=now,
        fail_reason=row.fail_reason,
        failed_steps=tuple(failed),
        stalled_step=stalled,
        inactive_since=inactive_since,
        changed_by=row.last_change,
    )


def _running(row: RunningRow, dags: Dags) -> RunningPlan | RunningRun:
    if row.status is None:
        compiled_dag = dags[row.dag]
        stage = compiled_dag.dag.stage(row.stage) if row.stage else None
        return RunningRun(
            kind=row.kind,
            id=row.id,
            name=row.name,
            at=row.updated_at,
            stage_name=None if stage is None else stage.name or stage.slug,
            steps_done=row.steps_done or 0,
            steps_total=sum(len(graph.order) for graph in compiled_dag.graphs.values()),
            holders=row.holders or (),
        )
    # A step that awaits input is the current one; otherwise, the first step in progress is.
    steps = sorted(
        (not is_waiting, order, title, holder)
        for is_waiting, order, title, holder in row.active_steps or ()
    )
    return RunningPlan(
        kind=row.kind,
        id=row.id,
        name=row.name,
        status=PlanStatus(row.status),
        at=row.updated_at,
        progress=_progress(row.statuses or ""),
        current_step=next((CurrentStep(order, title) for _, order, title, _ in steps), None),
        holders=sorted({holder for is_held, *_, holder in steps if is_held and holder}),
    )


def _finished(row: FinishedRow) -> FinishedWork:
    return FinishedWork(
        kind=row.kind or "",
        id=row.id,
        name=row.name,
        status="canceled" if row.canceled else "completed",
        note=f"{by_user(row.canceled_by).strip()}: {row.reason}" if row.canceled else "",
        started_at=row.created_at,
        at=row.ended_at,
        progress=None if row.statuses is None else _progress(row.statuses),
    )


def _progress(initials: str) -> Progress:
    """Return the progress of a plan from the first letters of the statuses of its steps."""
    return Progress({s: n for initial, s in STATUS_INITIALS if (n := initials.count(initial))})
