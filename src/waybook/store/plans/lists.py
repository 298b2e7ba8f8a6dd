"""Queries for lists of plans and of reviews."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from waybook.json_values import Json
from waybook.plan.model import DecisionKind, PlanState
from waybook.store.driver.queries import Statement, load


class PlanSummaryRow(NamedTuple):
    id: str
    name: str
    state: str
    revision: int
    question: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    now: datetime
    counts: dict[str, int]
    current_step: tuple[int, str] | None
    inactive_since: datetime | None


class PlanCountRow(NamedTuple):
    state: str
    plans: int


class ReviewRecord(NamedTuple):
    """A review with all the data that a reviewer needs to decide."""

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


class ReviewOutcomeRow(NamedTuple):
    id: str
    plan_id: str
    step_id: str
    summary: str
    questions: list[str]
    requested_at: datetime
    requested_as: str | None
    decision: str | None
    feedback: str | None
    decided_by: str | None
    decided_at: datetime | None
    plan_ended_at: datetime | None


class PendingCounts(NamedTuple):
    reviews: int
    runs: int
    failed_stages: int
    now: datetime

    @property
    def total(self) -> int:
        return self.reviews + self.runs + self.failed_stages


SQL = load(
    "plans/lists",
    plans_by_creation=PlanSummaryRow,
    plans_in_state=PlanSummaryRow,
    plans_of_creator=PlanSummaryRow,
    plans_by_activity=PlanSummaryRow,
    plans_with_text=PlanSummaryRow,
    count_plans=PlanCountRow,
    open_reviews=ReviewRecord,
    one_review=ReviewRecord,
    review_outcome=ReviewOutcomeRow,
    waiting=PendingCounts,
)


def open_reviews_statement(plan_id: str | None, most: int) -> Statement:
    return SQL["open_reviews"](plan_id=plan_id, most=most)


def read_review_records(rows: Iterable[ReviewRecord]) -> list[ReviewRecord]:
    return [
        row._replace(
            decision=DecisionKind(row.decision) if row.decision else None,
            plan_state=PlanState(row.plan_state),
        )
        for row in rows
    ]
