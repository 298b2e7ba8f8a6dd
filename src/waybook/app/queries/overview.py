"""Overview: plans and runs that need a person, are in trouble, are running, or have finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple

from waybook.app.queries.inbox import PendingFeedback, PendingReview, pending_actions
from waybook.app.queries.inbox import pending_statements as inbox_statements
from waybook.app.queries.plans.plan_list import EXCERPT_LENGTH, CurrentStep, read_progress
from waybook.app.queries.runs.run_list import RunProgress, StageSummary, load_definitions
from waybook.app.request.request_context import RequestContext
from waybook.core.durations import format_duration
from waybook.plan.modify import MODIFIABLE
from waybook.plan.progress import Progress
from waybook.plan.states import CLOSED_PLAN, PlanStatus, StepStatus
from waybook.run.status import RunState
from waybook.store.overview import (
    MAX_COUNTED,
    FinishedRow,
    LastLook,
    OverviewTotals,
    RunningRow,
    TroubledRow,
    max_troubled,
    overview_statements,
)

__all__ = ["LastLook"]

#: Maximum length in characters of a step's title inside a reason.
LABEL_LENGTH = 40
#: Maximum number of entries in each section of the overview.
MAX_ENTRIES = 8


class BlockedStep(NamedTuple):
    """Failed or stalled step of a plan."""

    id: str
    order: int
    title: str
    holder: str | None
    fail_reason: str | None

    @property
    def label(self) -> str:
        """Return the number of the step and the beginning of its title."""
        title = self.title.strip()
        short = title if len(title) <= LABEL_LENGTH else f"{title[: LABEL_LENGTH - 1].rstrip()}…"
        return f"{self.order} ({short})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledPlan:
    """Plan that is stalled, has failed steps, or failed."""

    kind: ClassVar[str] = "plan"

    id: str
    name: str
    plan_status: PlanStatus
    revision: int
    at: datetime
    now: datetime
    fail_reason: str | None
    failed_steps: tuple[BlockedStep, ...]
    stalled_step: BlockedStep | None
    #: Time since which a stalled plan has been inactive.
    inactive_since: datetime | None
    #: Actor of the change that ended a failed plan.
    changed_by: str | None

    @property
    def status(self) -> str:
        """Return the status to show: the plan's, or `failed` for a plan that only has failed steps.

        A plan that is neither stalled nor failed is in trouble because of its failed steps.
        """
        blocked = self.plan_status in {PlanStatus.STALLED, PlanStatus.FAILED}
        return self.plan_status if blocked else StepStatus.FAILED

    @property
    def is_open(self) -> bool:
        return self.plan_status not in CLOSED_PLAN

    @property
    def reason(self) -> str:
        """Return in one line why the plan is in trouble, and who was working on it."""
        if self.plan_status is PlanStatus.FAILED:
            return f"Plan failed{_by(self.changed_by)}: {self.fail_reason or 'no reason stored'}"
        reasons = [self._stall_reason()] if self.stalled_step else []
        if self.failed_steps:
            reasons.append(self._failure_reason(self.failed_steps))
        return "; ".join(reasons) or "Stalled: no step has a holder"

    def _stall_reason(self) -> str:
        step, since = self.stalled_step, self.inactive_since
        gap = f" for {format_duration(self.now - since)}" if since else ""
        who = step.holder if step and step.holder else "the holder"
        return f"No heartbeat from {who}{gap} on step {step.label}" if step else ""

    @staticmethod
    def _failure_reason(steps: Sequence[BlockedStep]) -> str:
        last = steps[-1]
        first = f"{len(steps)} steps failed, last step" if len(steps) > 1 else "Failed: step"
        who = f", held by {last.holder}" if last.holder else ""
        return f"{first} {last.label}{who}: {last.fail_reason or 'no reason stored'}"

    @property
    def retryable_steps(self) -> tuple[BlockedStep, ...]:
        """Return the failed or stalled steps that a user can retry."""
        if self.plan_status not in MODIFIABLE:
            return ()
        return (self.stalled_step,) if self.stalled_step else self.failed_steps


class RunFailure(NamedTuple):
    """Stage of a run with failed jobs, and the job that failed last."""

    stage: str
    step_key: str
    model: str
    attempt: int
    error: str
    held_by: str | None
    #: Time at which the job failed, as text in the format of the database, which sorts by time.
    at: str
    #: Whether the job failed because it used all its retries.
    out_of_retries: bool
    #: Number of failed jobs of the stage.
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledRun:
    """Open run with jobs that failed permanently."""

    kind: ClassVar[str] = "run"
    status: ClassVar[str] = RunState.FAILED
    is_open: ClassVar[bool] = True

    id: str
    name: str
    at: datetime
    #: Stages with failed jobs, each with the job that failed last.
    failures: tuple[RunFailure, ...]

    @property
    def reason(self) -> str:
        """Return in one line which job failed last, why, and who held it."""
        if not self.failures:
            return "A step failed"
        last = max(self.failures, key=lambda failure: failure.at)
        jobs = sum(failure.jobs for failure in self.failures)
        first = f"{jobs} jobs failed, last" if jobs > 1 else "Job failed"
        retries = f", out of retries after attempt {last.attempt}" if last.out_of_retries else ""
        who = f", held by {last.held_by}" if last.held_by else ""
        error = last.error or "no reason stored"
        return f"{first}: {last.step_key} ({last.model}{who}{retries}): {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPlan:
    """Open plan without problems."""

    kind: ClassVar[str] = "plan"

    id: str
    name: str
    status: PlanStatus
    at: datetime
    progress: Progress
    current_step: CurrentStep | None
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun(RunProgress):
    """Open run without problems."""

    kind: ClassVar[str] = "run"
    status: ClassVar[str] = RunState.IN_PROGRESS

    holders: tuple[str, ...]

    @property
    def at(self) -> datetime:
        return self.updated_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedWork:
    """Plan or run that was completed or canceled."""

    kind: str
    id: str
    name: str
    status: str
    #: Reason why the work was canceled, and the user who canceled it; empty for completed work.
    note: str
    started_at: datetime
    at: datetime
    progress: Progress | None


class SectionTotal(NamedTuple):
    """Number of plans and runs of a section."""

    total: int
    #: Whether there may be more plans or runs than were counted.
    is_minimum: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTotals:
    in_trouble: SectionTotal
    running: SectionTotal
    finished: SectionTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    needs: Sequence[PendingReview | PendingFeedback]
    trouble: Sequence[TroubledPlan | TroubledRun]
    running: Sequence[RunningPlan | RunningRun]
    finished: Sequence[FinishedWork]
    totals: SectionTotals
    #: Whether the org has any plan or run.
    has_work: bool
    #: Time since which finished work is listed.
    since: datetime
    now: datetime


async def read_overview(
    ctx: RequestContext, look: LastLook, *, most: int = MAX_ENTRIES
) -> Overview:
    """Return the overview, with up to `most` entries in each of its sections."""
    pending = inbox_statements(ctx, most)
    sections = overview_statements(look, most=most, wide=EXCERPT_LENGTH)
    rows = await ctx.read(*pending, *sections)
    reviews, awaiting, (totals,), troubled, running, finished = rows
    return Overview(
        needs=await pending_actions(ctx, reviews, awaiting, most=most),
        trouble=[*map(_troubled, troubled)],
        running=await _running(ctx, running),
        finished=[*map(_finished, finished)],
        totals=_section_totals(totals, troubled[0] if troubled else None, most),
        has_work=totals.has_work,
        since=totals.since,
        now=totals.now,
    )


def _section_totals(
    counted: OverviewTotals, troubled: TroubledRow | None, most: int
) -> SectionTotals:
    """Return the totals of the sections; plans and runs in trouble count only as such."""
    in_trouble, open_plans, finished_plans, runs = troubled[-4:] if troubled else (0, 0, 0, 0)
    running = max(0, counted.open_plans - open_plans) + max(
        0, counted.open_runs - counted.awaiting_runs - runs
    )
    finished = max(0, counted.finished_plans - finished_plans) + counted.finished_runs
    return SectionTotals(
        in_trouble=SectionTotal(in_trouble, max(in_trouble - runs, runs) >= max_troubled(most)),
        running=SectionTotal(running, max(counted.open_plans, counted.open_runs) >= MAX_COUNTED),
        finished=SectionTotal(
            finished, max(counted.finished_plans, counted.finished_runs) >= MAX_COUNTED
        ),
    )


def _troubled(row: TroubledRow) -> TroubledPlan | TroubledRun:
    if row.status is None or row.revision is None:
        failures = tuple(RunFailure(*failure) for failure in row.failures or ())
        return TroubledRun(id=row.id, name=row.name, at=row.updated_at, failures=failures)
    return TroubledPlan(
        id=row.id,
        name=row.name,
        plan_status=PlanStatus(row.status),
        revision=row.revision,
        at=row.updated_at,
        now=row.now,
        fail_reason=row.fail_reason,
        failed_steps=tuple(BlockedStep(*step) for step in row.failed_steps or ()),
        stalled_step=BlockedStep(*row.stalled_step) if row.stalled_step else None,
        inactive_since=row.inactive_since,
        changed_by=row.last_change,
    )


async def _running(
    ctx: RequestContext, rows: Sequence[RunningRow]
) -> list[RunningPlan | RunningRun]:
    """Return the running plans and runs; read uncached definitions of the runs."""
    dags = await load_definitions(ctx, {row.dag for row in rows if row.status is None})

    def entry(row: RunningRow) -> RunningPlan | RunningRun:
        holders = tuple(row.holders or ())
        if row.status is not None:
            return RunningPlan(
                id=row.id,
                name=row.name,
                status=PlanStatus(row.status),
                at=row.updated_at,
                progress=read_progress(row.counts),
                current_step=CurrentStep(*row.current_step) if row.current_step else None,
                holders=holders,
            )
        return RunningRun(
            id=row.id,
            name=row.name,
            compiled_dag=dags[row.dag],
            updated_at=row.updated_at,
            stages=tuple(StageSummary(*stage) for stage in row.stages or ()),
            holders=holders,
        )

    return [*map(entry, rows)]


def _finished(row: FinishedRow) -> FinishedWork:
    return FinishedWork(
        kind=row.kind,
        id=row.id,
        name=row.name,
        status="canceled" if row.canceled else "completed",
        note=f"{_by(row.canceled_by).strip()}: {row.reason}" if row.canceled else "",
        started_at=row.created_at,
        at=row.ended_at,
        progress=None if row.counts is None else read_progress(row.counts),
    )


def _by(user: str | None) -> str:
    return f" by {user}" if user else ""
