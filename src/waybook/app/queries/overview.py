"""Overview: plans and runs that need a person, are in trouble, are running, or have finished."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from waybook.app.queries.inbox import PendingFeedback, PendingReview, pending_actions
from waybook.app.queries.inbox import pending_statements as inbox_statements
from waybook.app.queries.plans.plan_list import (
    EXCERPT_LENGTH,
    PlanSummary,
    read_progress,
    read_summaries,
)
from waybook.app.queries.runs.run_list import RunSummary, read_run_summaries
from waybook.app.request.request_context import RequestContext
from waybook.core.durations import format_duration
from waybook.plan.modify import MODIFIABLE
from waybook.plan.progress import Progress
from waybook.plan.states import PlanStatus, StepStatus
from waybook.store.plans import overview as plan_rows
from waybook.store.plans.overview import (
    FinishedPlanRow,
    LastLook,
    RunningPlanRow,
    TroubledPlanRow,
)
from waybook.store.runs import overview as run_rows
from waybook.store.runs.overview import FinishedRunRow, RunningRunRow, TroubledRunRow

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

    plan: PlanSummary
    fail_reason: str | None
    failed_steps: tuple[BlockedStep, ...]
    stalled_step: BlockedStep | None
    #: Actor of the plan's latest change, which may be the change that ended the plan.
    changed_by: str | None

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def status(self) -> str:
        """Return the status to show: the plan's, or `failed` for a plan that only has failed steps.

        A plan that is neither stalled nor failed is in trouble because of its failed steps.
        """
        blocked = self.plan.status in {PlanStatus.STALLED, PlanStatus.FAILED}
        return self.plan.status if blocked else StepStatus.FAILED

    @property
    def at(self) -> datetime:
        return self.plan.updated_at

    @property
    def reason(self) -> str:
        """Return in one line why the plan is in trouble, and who was working on it."""
        if self.plan.status is PlanStatus.FAILED:
            return f"Plan failed{_by(self.changed_by)}: {self.fail_reason or 'no reason stored'}"
        reasons = [self._stall_reason()] if self.stalled_step else []
        if self.failed_steps:
            reasons.append(self._failure_reason(self.failed_steps))
        return "; ".join(reasons) or "Stalled: no step has a holder"

    def _stall_reason(self) -> str:
        step, since = self.stalled_step, self.plan.inactive_since
        gap = f" for {format_duration(self.plan.now - since)}" if since else ""
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
        if self.plan.status not in MODIFIABLE:
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

    run: RunSummary
    #: Stages with failed jobs, each with the job that failed last.
    failures: tuple[RunFailure, ...]

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def status(self) -> str:
        return self.run.state

    @property
    def at(self) -> datetime:
        return self.run.updated_at

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
    kind: ClassVar[str] = "plan"

    plan: PlanSummary
    holders: tuple[str, ...]

    @property
    def at(self) -> datetime:
        return self.plan.updated_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRun:
    kind: ClassVar[str] = "run"

    run: RunSummary
    holders: tuple[str, ...]

    @property
    def at(self) -> datetime:
        return self.run.updated_at


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTotals:
    in_trouble: int
    running: int
    finished: int


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
    of_plans = plan_rows.overview_statements(look, most=most, wide=EXCERPT_LENGTH)
    of_runs = run_rows.overview_statements(
        look.since, look.looked_at, most=most, wide=EXCERPT_LENGTH
    )
    rows = await ctx.read(*pending, *of_plans, *of_runs)
    reviews, awaiting, (plans,), troubled, running, finished = rows[:6]
    troubled_runs, running_runs, finished_runs = rows[6:]
    summaries = await read_run_summaries(
        ctx, [row.summary for row in (*troubled_runs, *running_runs)]
    )
    failed = map(_troubled_run, summaries, troubled_runs)
    working = map(_running_run, summaries[len(troubled_runs) :], running_runs)
    return Overview(
        needs=await pending_actions(ctx, reviews, awaiting, most=most),
        trouble=_latest([*map(_troubled_plan, troubled), *failed], most),
        running=_latest([*map(_running_plan, running), *working], most),
        finished=_latest(
            [*map(_finished_plan, finished), *map(_finished_run, finished_runs)], most
        ),
        totals=SectionTotals(
            in_trouble=_total(troubled, "in_trouble") + _total(troubled_runs, "in_trouble"),
            running=max(0, plans.running - _total(troubled, "running"))
            + _total(running_runs, "running"),
            finished=max(0, plans.finished - _total(troubled, "finished"))
            + _total(finished_runs, "finished"),
        ),
        has_work=plans.has_work,
        since=plans.since,
        now=plans.now,
    )


def _total(rows: Sequence[object], column: str) -> int:
    """Return a total that every row contains; 0 without rows."""
    return getattr(rows[0], column) if rows else 0


class _Dated(Protocol):
    @property
    def at(self) -> datetime: ...


DatedT = TypeVar("DatedT", bound=_Dated)


def _latest(entries: Iterable[DatedT], most: int) -> list[DatedT]:
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:most]


def _summary(row: TroubledPlanRow | RunningPlanRow) -> PlanSummary:
    (summary,) = read_summaries([row.summary])
    return summary


def _troubled_plan(row: TroubledPlanRow) -> TroubledPlan:
    return TroubledPlan(
        plan=_summary(row),
        fail_reason=row.fail_reason,
        failed_steps=tuple(BlockedStep(*step) for step in row.failed_steps or ()),
        stalled_step=BlockedStep(*row.stalled_step) if row.stalled_step else None,
        changed_by=row.last_change,
    )


def _running_plan(row: RunningPlanRow) -> RunningPlan:
    return RunningPlan(plan=_summary(row), holders=tuple(row.holders or ()))


def _troubled_run(run: RunSummary, row: TroubledRunRow) -> TroubledRun:
    failures = tuple(RunFailure(*failure) for failure in row.failures or ())
    return TroubledRun(run=run, failures=failures)


def _running_run(run: RunSummary, row: RunningRunRow) -> RunningRun:
    return RunningRun(run=run, holders=tuple(row.holders or ()))


def _finished_plan(row: FinishedPlanRow) -> FinishedWork:
    note = f"{_by(row.last_change).strip()}: {row.fail_reason}" if row.canceled else ""
    return FinishedWork(
        kind="plan",
        id=row.id,
        name=row.name,
        status="canceled" if row.canceled else row.status,
        note=note,
        started_at=row.created_at,
        at=row.completed_at,
        progress=read_progress(row.counts),
    )


def _finished_run(row: FinishedRunRow) -> FinishedWork:
    note = f"{_by(row.canceled_by).strip()}: {row.cancel_reason}" if row.canceled else ""
    return FinishedWork(
        kind="run",
        id=row.id,
        name=row.name,
        status="canceled" if row.canceled else "completed",
        note=note,
        started_at=row.created_at,
        at=row.ended_at,
        progress=None,
    )


def _by(user: str | None) -> str:
    return f" by {user}" if user else ""
