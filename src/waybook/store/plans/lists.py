"""Queries for lists of plans and of reviews."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from waybook.core.actions import Facts, Kind
from waybook.core.shown import ENDED, Shown, shown, shown_plan
from waybook.json_values import Json
from waybook.plan.model import DecisionKind, PlanState, StepStatus
from waybook.plan.progress import Progress
from waybook.store.driver.queries import load

#: A lookup by name is faster than calling the enumeration.
_STEP_STATUSES: Final[Mapping[str, StepStatus]] = {status.value: status for status in StepStatus}


class CurrentStep(NamedTuple):
    order: int
    #: Title of the step or, if it has none, the beginning of its instructions.
    title: str


class PlanSummary(NamedTuple):
    id: str
    name: str
    state: PlanState
    revision: int
    question: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    now: datetime
    counts: dict[str, int]
    current_step: CurrentStep | None
    #: Time of the last heartbeat of the stalled step. None if no step is stalled.
    inactive_since: datetime | None
    #: Number of steps that agents hold.
    held: int
    cost_micros: int | None

    @property
    def shown(self) -> Shown:
        return shown_plan(self.state, is_held=self.held > 0, has_steps=any(self.counts.values()))

    @property
    def state_counts(self) -> dict[Shown, int]:
        """Return the number of steps in each state. A step that was returned is to do."""
        counts = {shown(status): n for status, n in self.counts.items()}
        returned = counts[Shown.RUNNING] - self.held
        return {**counts, Shown.RUNNING: self.held, Shown.TODO: counts[Shown.TODO] + returned}

    @property
    def progress(self) -> Progress:
        return Progress({_STEP_STATUSES[name]: n for name, n in self.counts.items() if n})

    @property
    def is_open(self) -> bool:
        return self.shown not in ENDED

    @property
    def facts(self) -> Facts:
        failed, silent = self.counts.get("failed", 0), int(self.inactive_since is not None)
        steps = sum(self.counts.values())
        return Facts(Kind.PLAN, self.shown, Shown.UNKNOWN, steps, failed, silent)


class ReviewRecord(NamedTuple):
    """A review with its plan and step, and the decision if there is one."""

    id: str
    plan_id: str
    plan_name: str
    step_id: str
    step_order: int
    title: str | None
    attempt: int
    instructions: str
    summary: str
    questions: list[str]
    result_summary: Json
    requested_at: datetime
    requested_by: str
    now: datetime
    decision: DecisionKind | None = None
    feedback: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    plan_state: PlanState = PlanState.AWAITING_REVIEW
    plan_is_held: bool = False
    assignee: str | None = None

    @property
    def plan_shown(self) -> Shown:
        return shown_plan(self.plan_state, is_held=self.plan_is_held)


class PendingCounts(NamedTuple):
    reviews: int
    runs: int
    failed_stages: int
    caps: int
    now: datetime

    @property
    def total(self) -> int:
        return self.reviews + self.runs + self.failed_stages + self.caps


SQL = load(
    "plans/lists",
    plans_by_creation=PlanSummary,
    plans_in_state=PlanSummary,
    plans_of_creator=PlanSummary,
    plans_by_activity=PlanSummary,
    plans_with_text=PlanSummary,
    open_reviews=ReviewRecord,
    decided_reviews=ReviewRecord,
    one_review=ReviewRecord,
    waiting=PendingCounts,
)


def read_review_records(rows: Iterable[ReviewRecord]) -> list[ReviewRecord]:
    return [
        row._replace(
            decision=DecisionKind(row.decision) if row.decision else None,
            plan_state=PlanState(row.plan_state),
        )
        for row in rows
    ]
