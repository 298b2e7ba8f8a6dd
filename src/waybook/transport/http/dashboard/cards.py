"""Page sections (cards) for pending reviews and feedback, with their forms and outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

import orjson

from waybook.app.queries.inbox import (
    PendingFeedback,
    PreviousReview,
    ReviewArtifact,
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
    previous: PreviousReview | None = None
    changes: Diff | None = None
    research: tuple[ReviewArtifact, ...] = ()
    outputs: tuple[ReviewArtifact, ...] = ()
    due_at: datetime | None = None
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None

    @property
    def since(self) -> datetime:
        return self.review.requested_at

    @property
    def is_overdue(self) -> bool:
        return self.due_at is not None and self.review.now > self.due_at


PREVIEW_LENGTH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPreview:
    """The first lines of a document of a completed stage."""

    document: StageDocument
    preview: str


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
    documents: tuple[DocumentPreview, ...] = ()
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
    return DecisionCard(
        review=review,
        summary=to_rich_text(review.summary),
        result=to_rich_text(result),
        instructions=to_rich_text(review.instructions),
        result_json=_json(result),
        previous=found.previous,
        changes=_changes(found.previous, result) if found.previous else None,
        research=found.research,
        outputs=found.outputs,
        due_at=review.requested_at + found.decide_within if found.decide_within else None,
        typed=typed or FormInput(),
    )


def _json(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return None
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return text if len(text) <= MAX_LENGTH else None


def _changes(previous: PreviousReview, result: Json) -> Diff | None:
    if not previous.result_length or result is None:
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
    return FeedbackCard(
        run_id=awaiting.run.id,
        run_name=awaiting.run.name,
        stage_slug=awaiting.stage_slug,
        stage_name=awaiting.stage_name,
        since=awaiting.since,
        following=tuple(stage.name for stage in after if stage),
        documents=tuple(_preview(item) for item in documents),
        document_count=max((item.total for item in documents), default=0),
        typed=typed or FormInput(),
    )


def _preview(document: StageDocument) -> DocumentPreview:
    text = to_rich_text(document.beginning)
    plain = " ".join(text.html.striptags().split()) if text else ""
    cut = f"{plain[:PREVIEW_LENGTH]}…" if len(plain) > PREVIEW_LENGTH else plain
    return DocumentPreview(document=document, preview=cut)
