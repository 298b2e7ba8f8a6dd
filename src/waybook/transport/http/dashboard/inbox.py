"""Inbox page: cards of pending reviews, awaited feedback and failed stages, and their forms.

Overdue reviews come first.

The forms work with and without JavaScript.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar, Final
from urllib.parse import urlencode

from starlette.responses import Response

from waybook.app.queries.inbox import (
    FailedStage,
    PendingFeedback,
    ReviewEvidence,
    ReviewRecord,
    Row,
    list_failed_stages,
    list_reviews,
    read_evidence,
    read_pending_stage,
    read_review,
    read_stage_documents,
    runs_awaiting_feedback,
)
from waybook.core.ids import IdKind
from waybook.errors import WaybookError
from waybook.plan.model import PlanState
from waybook.transport.errors import code_of
from waybook.transport.http.dashboard.line_diff import TOO_LONG, Diff, compare_texts, result_text
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_details,
    error_message,
    redirect,
    require_id,
)
from waybook.transport.http.html.layout import MAX_LENGTH, RichText, to_rich_text
from waybook.transport.http.request_checks import safe_return_path

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
class _DecisionCard:
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
    documents: tuple[tuple[Row, str], ...] = ()
    document_count: int = 0
    #: Models for the next stage, as the user typed them. If empty, the models stay the same.
    models: str = ""
    typed: FormInput = field(default_factory=FormInput)
    outcome: DecisionOutcome | None = None


def decision_card(
    review: ReviewRecord,
    evidence: ReviewEvidence | None = None,
    typed: FormInput | None = None,
    *,
    too_late: bool = False,
) -> _DecisionCard:
    """Return the card of a review, with the decision if a person has decided."""
    outcome, changes = None, None
    if review.decision is not None:
        outcome = DecisionOutcome(
            by=review.decided_by or "another user",
            text=DECISION_TEXT[review.decision],
            at=review.decided_at,
            feedback=review.feedback,
            too_late=too_late,
            status=review.plan_state,
        )
    found = evidence or ReviewEvidence()
    result, previous = review.result_summary, found.previous
    as_json = "" if isinstance(result, str) else result_text(result)
    if previous is not None and previous.result_length and result is not None and not outcome:
        changes = TOO_LONG
        if previous.result_summary is not None:
            changes = compare_texts(result_text(previous.result_summary), result_text(result))
    return _DecisionCard(
        review=review,
        summary=to_rich_text(review.summary),
        result=to_rich_text(result),
        instructions=to_rich_text(review.instructions),
        result_json=as_json if as_json and len(as_json) <= MAX_LENGTH else None,
        evidence=found,
        changes=changes,
        typed=typed or FormInput(),
        outcome=outcome,
    )


def feedback_card(
    awaiting: PendingFeedback,
    documents: Sequence[Row] = (),
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


_MAX_CARDS: Final = 20
#: Values of the decision buttons. `wait` is the button that cancels a rejection.
DECISIONS: Final = frozenset({"approve", "modify", "skip", "reject", "wait"})
ALREADY_DECIDED_CODES: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})
FEEDBACK_REQUIRED_MESSAGE: Final = "describe the requested changes; the agent will read them"
STAGE_FEEDBACK_REQUIRED_MESSAGE: Final = (
    "enter your feedback on the stage; it is passed on to the next stage"
)
_MAX_ITEM_LENGTH: Final = 64
REASONS: Final = {
    "FORBIDDEN": "your scopes or the review policy do not allow you to decide it",
    "NOT_FOUND": "not found in this org",
    "PLAN_TERMINAL": "the plan is closed",
    "RATE_LIMITED": "too many requests; try again in a moment",
    "BUSY": "the server is busy; try again",
    "DISK_FULL": "the disk of the database is full; tell the operator",
    "UNAVAILABLE": "the database is not reachable; try again",
}
_DEFAULT_REASON: Final = "refused; open the plan to see its status"


async def inbox_page(page: PageRequest) -> Response:
    ctx = await page.context()
    reviews = await list_reviews(ctx, limit=_MAX_CARDS)
    evidence = await read_evidence(ctx, [review.id for review in reviews])
    stages = await runs_awaiting_feedback(ctx, most=_MAX_CARDS)
    documents = await read_stage_documents(ctx, stages)
    cards: list[_DecisionCard | FeedbackCard | FailedStage] = [
        *(decision_card(review, evidence[review.id]) for review in reviews),
        *(feedback_card(*item) for item in zip(stages, documents, strict=True)),
        *await list_failed_stages(ctx, most=_MAX_CARDS),
    ]
    cards.sort(key=lambda card: (not card.is_overdue, card.since))
    return await page.render("inbox", cards=cards[:_MAX_CARDS], key=secrets.token_urlsafe(16))


async def _respond(
    page: PageRequest, form: SubmittedForm, status: int = HTTPStatus.OK, **card: object
) -> Response:
    """Show the card after its form was submitted.

    A reply to the page's script has status 200, because the script ignores all other replies.
    """
    shown: dict[str, object] = {"decision": None, "feedback": None, **card}
    code = HTTPStatus.OK if page.is_partial else status
    return await page.render("decide", status=code, back=form.return_path, **shown)


async def submit_decision(page: PageRequest) -> Response:
    """Submit a review decision. A rejection must be confirmed first."""
    form = await page.form()
    decision, feedback = form.text("decision"), form.text("feedback")
    typed, status, is_late = FormInput(feedback=feedback), HTTPStatus.OK, False
    if decision not in DECISIONS:
        typed, status = replace(typed, error="choose one of the buttons"), HTTPStatus.BAD_REQUEST
    elif decision == "reject" and not form.text("confirmed"):
        typed = replace(typed, confirming=True)
    elif decision != "wait":
        args = {"planId": form.text("planId"), "reviewId": form.text("reviewId")}
        optional_args = {"feedback": feedback} if feedback.strip() else {}
        answer = await page.call_tool(
            "submit_user_decision", {**args, "decision": decision, **optional_args}
        )
        if answer.is_error:
            needed = error_details(answer).get("argument") == "feedback" and not feedback.strip()
            error = FEEDBACK_REQUIRED_MESSAGE if needed else error_message(answer)
            typed, is_late = replace(typed, error=error), code_of(answer) in ALREADY_DECIDED_CODES
            status = HTTPStatus.CONFLICT if is_late else HTTPStatus.BAD_REQUEST
        elif page.is_partial:
            typed = FormInput()
        else:
            return redirect(form.return_path)
    seen = await _read_review(page, form.text("reviewId"))
    evidence = await read_evidence(await page.context(), [seen.id])
    card = decision_card(seen, evidence[seen.id], typed, too_late=is_late)
    return await _respond(page, form, status, decision=card)


async def _read_review(page: PageRequest, review_id: str) -> ReviewRecord:
    return await read_review(await page.context(), require_id(IdKind.REVIEW, review_id))


async def submit_feedback(page: PageRequest) -> Response:
    form = await page.form()
    run_id, slug, words = (form.text(name) for name in ("runId", "stageSlug", "feedback"))
    run_id = require_id(IdKind.RUN, run_id)
    ctx, models = await page.context(), form.text("models")
    stage = await read_pending_stage(ctx, run_id, slug)
    (documents,) = await read_stage_documents(ctx, [stage])
    card = replace(feedback_card(stage, documents, FormInput(feedback=words)), models=models)
    error = STAGE_FEEDBACK_REQUIRED_MESSAGE
    if words.strip():
        chosen = [name.strip() for name in models.split(",") if name.strip()]
        args = {"runId": run_id, "stageSlug": slug, "feedback": words, "models": chosen or None}
        answer = await page.call_tool("submit_stage_feedback", args)
        if not answer.is_error and not page.is_partial:
            return redirect(form.return_path)
        if not answer.is_error:
            outcome = DecisionOutcome(by=ctx.caller.user, text="gave feedback", feedback=words)
            return await _respond(page, form, feedback=replace(card, outcome=outcome))
        if code_of(answer) == "NOT_AWAITING_REVIEW":
            details = error_details(answer)
            at, earlier = details.get("decidedAt"), details.get("feedback")
            outcome = DecisionOutcome(
                by=str(details.get("decidedBy") or "another user"),
                text="gave feedback",
                at=datetime.fromisoformat(at) if isinstance(at, str) else None,
                feedback=earlier if isinstance(earlier, str) else None,
                too_late=True,
            )
            late = replace(card, outcome=outcome)
            return await _respond(page, form, HTTPStatus.CONFLICT, feedback=late)
        error = error_message(answer)
    refused = replace(card, typed=replace(card.typed, error=error))
    return await _respond(page, form, HTTPStatus.BAD_REQUEST, feedback=refused)


async def approve_selected(page: PageRequest) -> Response:
    """Approve several reviews with one form.

    The response redirects to a page with the outcomes, so that a reload repeats no approval.
    """
    query = page.request.query_params
    selected, back = _selected(query.getlist("review")), safe_return_path(query.get("back"))
    if page.is_post:
        form = await page.form()
        selected, back = _selected(form.fields.getlist("review")), form.return_path
        if selected:
            # Check the rate limit before anything is decided.
            await page.context()
            approved = [await _approve(page, item) for item in selected]
            shown = urlencode({"review": approved, "back": back}, doseq=True)
            return redirect(f"{page.request.url.path}?{shown}")
    outcomes = [await _outcome(page, item) for item in selected]
    is_refused = page.is_post and not page.is_partial
    return await page.render(
        "selected",
        status=400 if is_refused else 200,
        outcomes=outcomes,
        error="" if outcomes else "Select at least one review.",
        back=back,
    )


def _selected(values: Iterable[object]) -> list[str]:
    texts = (value[:_MAX_ITEM_LENGTH] for value in values if isinstance(value, str))
    return [*dict.fromkeys(texts)][:_MAX_CARDS]


async def _approve(page: PageRequest, review_id: str) -> str:
    """Approve one review. Return its id, followed by the error code if it was refused."""
    try:
        review = await _read_review(page, review_id)
        args = {"planId": review.plan_id, "reviewId": review.id, "decision": "approve"}
        answer = await page.call_tool("submit_user_decision", args)
    except WaybookError as error:
        return f"{review_id}:{error.code}"
    return f"{review.id}:{code_of(answer)}" if answer.is_error else review.id


async def _outcome(page: PageRequest, selected: str) -> dict[str, str]:
    review_id, _, code = selected.partition(":")
    try:
        review = await _read_review(page, review_id)
    except WaybookError as failure:
        reason = REASONS.get(failure.code, _DEFAULT_REASON)
        return {"name": "Unknown review", "plan_id": "", "decided": "", "error": reason}
    decided = DECISION_TEXT[review.decision] if review.decision else ""
    earlier = f"already decided: {review.decided_by} {decided}"
    error = earlier if decided else REASONS.get(code, _DEFAULT_REASON)
    return {
        "name": f"{review.plan_name}, step {review.step_order}",
        "plan_id": review.plan_id,
        "decided": decided,
        "error": error if code else "",
    }
