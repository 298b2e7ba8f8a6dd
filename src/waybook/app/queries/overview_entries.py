"""Entries of the overview, each with the reason why it is listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from waybook.app.queries.plans.plan_list import CurrentStep
from waybook.core.durations import format_duration
from waybook.dag.statuses import RunState
from waybook.plan.progress import Progress
from waybook.plan.states import CLOSED_PLAN, MODIFIABLE, PlanStatus
from waybook.store.overview import FinishedRow, RunningRow, TroubledRow, WaitingRow

LABEL_LENGTH = 40


class WaitingWork(NamedTuple):
    """An open review, or a completed stage that awaits feedback."""

    row: WaitingRow
    stage_name: str | None


class BlockedStep(NamedTuple):
    id: str
    order: int
    title: str
    holder: str | None
    fail_reason: str | None

    @property
    def label(self) -> str:
        title = self.title.strip()
        short = title if len(title) <= LABEL_LENGTH else f"{title[: LABEL_LENGTH - 1].rstrip()}…"
        return f"{self.order} ({short})"


class TroubledPlan(NamedTuple):
    """A plan that failed, is stalled, or has failed steps."""

    row: TroubledRow
    status: PlanStatus
    now: datetime
    failed_steps: Sequence[BlockedStep]
    stalled_step: BlockedStep | None
    inactive_since: datetime | None

    @property
    def is_open(self) -> bool:
        return self.status not in CLOSED_PLAN

    @property
    def reason(self) -> str:
        if self.status is PlanStatus.FAILED:
            why = self.row.fail_reason or "no reason stored"
            return f"Plan failed{by_user(self.row.last_change)}: {why}"
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
    def retryable_steps(self) -> Sequence[BlockedStep]:
        if self.status not in MODIFIABLE:
            return ()
        return (self.stalled_step,) if self.stalled_step else self.failed_steps


class RunFailure(NamedTuple):
    """A stage of a run with failed jobs, and the job that failed last."""

    stage: str
    step_key: str
    model: str
    attempt: int
    error: str
    held_by: str | None
    at: str
    out_of_retries: bool
    jobs: int

    @property
    def reason(self) -> str:
        first = f"{self.jobs} jobs failed, last" if self.jobs > 1 else "Job failed"
        retries = f", out of retries after attempt {self.attempt}" if self.out_of_retries else ""
        who = f", held by {self.held_by}" if self.held_by else ""
        error = self.error or "no reason stored"
        return f"{first}: {self.step_key} ({self.model}{who}{retries}): {error}"


class TroubledRun(NamedTuple):
    """An open run with permanently failed jobs."""

    row: TroubledRow
    failures: Sequence[RunFailure]

    @property
    def status(self) -> RunState:
        return RunState.FAILED

    @property
    def is_open(self) -> bool:
        return True

    @property
    def reason(self) -> str:
        if not self.failures:
            return "A step failed"
        last = max(self.failures, key=lambda failure: failure.at)
        return last._replace(jobs=sum(failure.jobs for failure in self.failures)).reason


class RunningPlan(NamedTuple):
    row: RunningRow
    progress: Progress
    current_step: CurrentStep | None
    holders: Sequence[str]


class RunningRun(NamedTuple):
    row: RunningRow
    stage_name: str | None
    steps_total: int


class FinishedWork(NamedTuple):
    """A plan or run that was completed or canceled."""

    row: FinishedRow
    progress: Progress | None

    @property
    def status(self) -> str:
        return "canceled" if self.row.canceled else "completed"

    @property
    def note(self) -> str:
        row = self.row
        return f"{by_user(row.canceled_by).strip()}: {row.reason}" if row.canceled else ""


class SectionTotal(NamedTuple):
    total: int
    is_minimum: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTotals:
    in_trouble: SectionTotal
    running: SectionTotal
    finished: SectionTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    needs: Sequence[WaitingWork]
    trouble: Sequence[TroubledPlan | TroubledRun]
    running: Sequence[RunningPlan | RunningRun]
    finished: Sequence[FinishedWork]
    totals: SectionTotals
    has_work: bool
    since: datetime
    now: datetime


def by_user(user: str | None) -> str:
    return f" by {user}" if user else ""
