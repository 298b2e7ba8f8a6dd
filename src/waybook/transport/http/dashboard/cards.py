"""Cards for pending reviews and feedback, with their forms and outcomes."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from waybook.app.queries.inbox import PendingFeedback, ReviewRecord
from waybook.plan.states import PlanStatus
from waybook.transport.http.html.layout import RichText, to_rich_text

#: Past-tense description of each kind of review decision.
DECISION_TEXT = {
    "approve": "approved",
    "modify": "requested changes",
    "skip": "skipped the step",
    "reject": "rejected; the plan failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormInput:
    """Submitted form input, with the error message if the input was refused."""

    feedback: str = ""
    error: str = ""
    #: True if the page asks the user to confirm the decision.
    confirming: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """Recorded review decision: who made it, and the plan's status afterwards."""

    by: str
    text: str
    at: datetime | None = None
    feedback: str | None = None
    #: True if the decision had no effect, because another user decided first.
    too_late: bool = False
    status: PlanStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCard:
    """Card for a review to be decided by a person."""

    kind: ClassVar[str] = "review"

    review: ReviewRecord
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
    """Completed stage of a run that awaits feedback."""

    kind: ClassVar[str] = "run"

    run_id: str
    run_name: str
    stage_slug: str
    stage_name: str
    since: datetime
    following: tuple[str, ...] = ()
    #: Models for the next stage, if the user may choose them. If the text is empty, the previous
    #: models are kept.
    models: str = ""
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None


def decision_card(review: ReviewRecord, typed: FormInput | None = None) -> DecisionCard:
    """Return the card of an open review."""
    return DecisionCard(
        review=review,
        summary=to_rich_text(review.summary),
        result=to_rich_text(review.result_summary),
        instructions=to_rich_text(review.instructions),
        typed=typed or FormInput(),
    )


def decided_card(seen: ReviewRecord, typed: FormInput, *, too_late: bool) -> DecisionCard:
    """Return the card of a review, with its outcome if it has been decided."""
    card = decision_card(seen, typed)
    if seen.decision is None:
        return card
    outcome = DecisionOutcome(
        by=seen.decided_by or "another user",
        text=DECISION_TEXT[seen.decision],
        at=seen.decided_at,
        feedback=seen.feedback,
        too_late=too_late,
        status=seen.plan_status,
    )
    return replace(card, outcome=outcome)


def feedback_card(awaiting: PendingFeedback, typed: FormInput | None = None) -> FeedbackCard:
    """Return the card of a stage that awaits feedback."""
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
