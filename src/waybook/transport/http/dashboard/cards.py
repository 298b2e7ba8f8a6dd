"""Page sections (cards) for pending reviews and feedback, with their forms and outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Final

from waybook.app.queries.inbox import (
    PendingFeedback,
    PreviousReview,
    ReviewEvidence,
    ReviewRecord,
    StageDocument,
)
from waybook.json_values import Json
from waybook.plan.model import PlanState
from waybook.transport.http.dashboard.line_diff import TOO_LONG, Diff, compare_texts, result_text
from waybook.transport.http.html.layout import MAX_LENGTH, RichText, to_rich_text

DECISION_TEXT = {
    "approve": "approved",
    "modify": "requested changes",
    "skip": "skipped the step",
    "reject": "rejected; the plan failed",
}
PREVIEW_LENGTH: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class FormInput:
    """Submitted form input, with an error message if it was refused."""

    feedback: str = ""
    error: str = ""
    confirming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """A recorded review decision: who made it, and the plan's status afterwards."""

    by: str
    text: str
    at: datetime | None = None
    feedback: str | None = None
    too_late: bool = False
    status: PlanState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCard:
    """The card on which a person decides a review."""

    kind: ClassVar[str] = "review"

    review: ReviewRecord
    summary: RichText | None
    result: RichText | None
    instructions: RichText | None
    result_json: str | None = None
    evidence: ReviewEvidence = field(default_factory=ReviewEvidence)
    changes: Diff | None = None
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None

    @property
    def since(self) -> datetime:
        return self.review.requested_at

    @property
    def due_at(self) -> datetime | None:
        within = self.evidence.decide_within
        return self.review.requested_at + within if within else None

    @property
    def is_overdue(self) -> bool:
        return self.due_at is not None and self.review.now > self.due_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackCard:
    kind: ClassVar[str] = "run"
    is_overdue: ClassVar[bool] = False

    run_id: str
    run_name: str
    stage_slug: str
    stage_name: str
    since: datetime
    following: tuple[str, ...] = ()
    #: Documents of the stage, each with its first lines.
    documents: tuple[tuple[StageDocument, str], ...] = ()
    document_count: int = 0
    #: Models for the next stage, as the user typed them. If empty, the models stay the same.
    models: str = ""
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None


def decision_card(
    review: ReviewRecord, typed: FormInput | None = None, evidence: ReviewEvidence | None = None
) -> DecisionCard:
    found = evidence or ReviewEvidence()
    result = review.result_summary
    as_json = "" if isinstance(result, str) else result_text(result)
    return DecisionCard(
        review=review,
        summary=to_rich_text(review.summary),
        result=to_rich_text(result),
        instructions=to_rich_text(review.instructions),
        result_json=as_json if as_json and len(as_json) <= MAX_LENGTH else None,
        evidence=found,
        changes=_changes(found.previous, result),
        typed=typed or FormInput(),
    )


def _changes(previous: PreviousReview | None, result: Json) -> Diff | None:
    if previous is None or not previous.result_length or result is None:
        return None
    if previous.result_summary is None:
        return TOO_LONG
    return compare_texts(result_text(previous.result_summary), result_text(result))


def decided_card(
    seen: ReviewRecord,
    typed: FormInput,
    *,
    too_late: bool,
    evidence: ReviewEvidence | None = None,
) -> DecisionCard:
    if seen.decision is None:
        return decision_card(seen, typed, evidence)
    outcome = DecisionOutcome(
        by=seen.decided_by or "another user",
        text=DECISION_TEXT[seen.decision],
        at=seen.decided_at,
        feedback=seen.feedback,
        too_late=too_late,
        status=seen.plan_state,
    )
    return replace(decision_card(seen, typed), outcome=outcome)


def feedback_card(
    awaiting: PendingFeedback,
    documents: Sequence[StageDocument] = (),
    typed: FormInput | None = None,
) -> FeedbackCard:
    dag = awaiting.run.compiled_dag.dag
    after = [dag.stage(slug) for slug in dag.after(awaiting.stage_slug)]
    beginnings = []
    for document in documents:
        text = to_rich_text(document.beginning)
        plain = " ".join(text.html.striptags().split()) if text else ""
        cut = len(plain) > PREVIEW_LENGTH
        beginnings.append((document, f"{plain[:PREVIEW_LENGTH]}…" if cut else plain))
    return FeedbackCard(
        run_id=awaiting.run.id,
        run_name=awaiting.run.name,
        stage_slug=awaiting.stage_slug,
        stage_name=awaiting.stage_name,
        since=awaiting.since,
        following=tuple(stage.name for stage in after if stage),
        documents=tuple(beginnings),
        document_count=max((item.total for item in documents), default=0),
        typed=typed or FormInput(),
    )
