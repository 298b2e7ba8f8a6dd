"""What a person is asked, as a card: what it is about, what was said, and what came of it."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from waybook.app.queries.inbox import OpenReview, PendingFeedback, ReviewRecord
from waybook.plan.states import PlanStatus
from waybook.transport.http.html.layout import RichText, to_rich_text

#: What became of a step by each decision, as a sentence says it.
DECISION_TEXT = {
    "approve": "approved it",
    "modify": "sent it back with feedback",
    "skip": "skipped the step",
    "reject": "rejected it, and the plan failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormInput:
    """What a person has said so far, and what stood in the way."""

    feedback: str = ""
    error: str = ""
    #: Whether they are asked once more.
    confirming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """Who said what when, and how the plan stands since."""

    by: str
    text: str
    at: datetime | None = None
    feedback: str | None = None
    #: Whether whoever looks was too late.
    too_late: bool = False
    status: PlanStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCard:
    """A review before a person."""

    kind: ClassVar[str] = "review"

    review: OpenReview
    summary: RichText | None
    result: RichText | None
    instructions: RichText | None
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None

    @property
    def since(self) -> datetime:
        return self.review.requested_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackCard:
    """A completed stage of a run before a person."""

    kind: ClassVar[str] = "run"

    run_id: str
    run_name: str
    stage_slug: str
    stage_name: str
    since: datetime
    following: tuple[str, ...] = ()
    #: Who is to work on what follows, where a person may say so; else as before.
    models: str = ""
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None


def decision_card(review: OpenReview, typed: FormInput | None = None) -> DecisionCard:
    """A review to be decided."""
    return DecisionCard(
        review=review,
        summary=to_rich_text(review.summary),
        result=to_rich_text(review.result_summary),
        instructions=to_rich_text(review.instructions),
        typed=typed or FormInput(),
    )


def decided_card(seen: ReviewRecord, typed: FormInput, *, too_late: bool) -> DecisionCard:
    """A review as it stands: decided, if somebody has."""
    card = decision_card(seen.review, typed)
    if seen.decision is None:
        return card
    outcome = DecisionOutcome(
        by=seen.decided_by or "somebody",
        text=DECISION_TEXT[seen.decision],
        at=seen.decided_at,
        feedback=seen.feedback,
        too_late=too_late,
        status=seen.plan_status,
    )
    return replace(card, outcome=outcome)


def feedback_card(awaiting: PendingFeedback, typed: FormInput | None = None) -> FeedbackCard:
    """A stage that waits for somebody's word."""
    dag = awaiting.run.compiled_dag.dag
    after = [dag.stage(slug) for slug in dag.after(awaiting.stage_slug)]
    return FeedbackCard(
        run_id=awaiting.run.id,
        run_name=awaiting.run.name,
        stage_slug=awaiting.stage_slug,
        stage_name=awaiting.stage_name,
        since=awaiting.since,
        following=tuple(stage.name for stage in after if stage),
        typed=typed or FormInput(),
    )
