"""Inbox page with pending reviews, feedback and failed stages, and its form handlers.

Overdue reviews come first.

The forms work with and without JavaScript.
"""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.inbox import (
    FailedStage,
    list_failed_stages,
    list_reviews,
    read_evidence,
    read_pending_stage,
    read_review,
    read_stage_documents,
    runs_awaiting_feedback,
)
from waybook.app.request.caller import Answer
from waybook.core.short_ids import IdKind
from waybook.transport.errors import code_of
from waybook.transport.http.dashboard.cards import (
    DecisionCard,
    DecisionOutcome,
    FeedbackCard,
    FormInput,
    decided_card,
    decision_card,
    feedback_card,
)
from waybook.transport.http.dashboard.page import (
    PageContext,
    SubmittedForm,
    error_details,
    error_message,
    respond,
)
from waybook.transport.http.html.forms import read_form

MAX_CARDS: Final = 20


@dataclass(frozen=True, slots=True)
class InboxPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        reviews = await list_reviews(call, limit=MAX_CARDS)
        evidence = await read_evidence(call, [review.id for review in reviews])
        decisions = [decision_card(review, evidence=evidence[review.id]) for review in reviews]
        stages = await runs_awaiting_feedback(call, most=MAX_CARDS)
        documents = await read_stage_documents(call, stages)
        feedback = [feedback_card(*item) for item in zip(stages, documents, strict=True)]
        failed = await list_failed_stages(call, most=MAX_CARDS)
        every: list[DecisionCard | FeedbackCard | FailedStage] = [*decisions, *feedback, *failed]
        every.sort(key=lambda card: (not card.is_overdue, card.since))
        key = secrets.token_urlsafe(16)
        return await self.page_context.render_page(
            request, "inbox", cards=every[:MAX_CARDS], key=key
        )


#: Values of the decision buttons. `wait` cancels a rejection.
DECISIONS: Final = frozenset({"approve", "modify", "skip", "reject", "wait"})
ALREADY_DECIDED_CODES: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})
NO_BUTTON_MESSAGE: Final = "choose one of the buttons"
FEEDBACK_REQUIRED_MESSAGE: Final = "describe the requested changes; the agent will read them"
STAGE_FEEDBACK_REQUIRED_MESSAGE: Final = (
    "enter your feedback on the stage; it is passed on to the next stage"
)


@dataclass(frozen=True, slots=True)
class DecisionHandler:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Submit a review decision. A rejection must be confirmed first."""
        form = SubmittedForm(await read_form(request))
        decision, feedback = form.text("decision"), form.text("feedback")
        typed = FormInput(feedback=feedback)
        if decision not in DECISIONS:
            typed = FormInput(feedback=feedback, error=NO_BUTTON_MESSAGE)
            return await self._card(request, form, typed, HTTPStatus.BAD_REQUEST)
        if decision == "wait":
            return await self._card(request, form, typed, HTTPStatus.OK)
        if decision == "reject" and not form.text("confirmed"):
            typed = FormInput(feedback=feedback, confirming=True)
            return await self._card(request, form, typed, HTTPStatus.OK)
        return await self._carry_out(request, form, decision)

    async def _carry_out(self, request: Request, form: SubmittedForm, decision: str) -> Response:
        feedback = form.text("feedback")
        args = {"planId": form.text("planId"), "reviewId": form.text("reviewId")}
        optional_args = {"feedback": feedback} if feedback.strip() else {}
        answer = await self.page_context.call_tool(
            request, "submit_user_decision", {**args, "decision": decision, **optional_args}
        )
        if not answer.is_error:
            return form.redirect_back(request) or await self._card(
                request, form, FormInput(), HTTPStatus.OK
            )
        needed = error_details(answer).get("argument") == "feedback" and not feedback.strip()
        typed = FormInput(
            feedback=feedback, error=FEEDBACK_REQUIRED_MESSAGE if needed else error_message(answer)
        )
        late = code_of(answer) in ALREADY_DECIDED_CODES
        status = HTTPStatus.CONFLICT if late else HTTPStatus.BAD_REQUEST
        return await self._card(request, form, typed, status, too_late=late)

    async def _card(
        self,
        request: Request,
        form: SubmittedForm,
        typed: FormInput,
        status: int,
        *,
        too_late: bool = False,
    ) -> Response:
        review_id = form.text("reviewId")
        call = await self.page_context.request_context(request)
        seen = await read_review(
            call, await self.page_context.full_id(request, IdKind.REVIEW, review_id)
        )
        evidence = await read_evidence(call, [seen.id])
        card = decided_card(seen, typed, too_late=too_late, evidence=evidence[seen.id])
        return await respond(self.page_context, request, form, status, decision=card)


@dataclass(frozen=True, slots=True)
class FeedbackHandler:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        form = SubmittedForm(await read_form(request))
        run_id, slug, words = (form.text(name) for name in ("runId", "stageSlug", "feedback"))
        run_id = await self.page_context.full_id(request, IdKind.RUN, run_id)
        call = await self.page_context.request_context(request)
        stage = await read_pending_stage(call, run_id, slug)
        (documents,) = await read_stage_documents(call, [stage])
        models = form.text("models")
        typed = FormInput(feedback=words)
        card = replace(feedback_card(stage, documents, typed), models=models)
        if not words.strip():
            return await self._refused(request, form, card, STAGE_FEEDBACK_REQUIRED_MESSAGE)
        chosen = [name.strip() for name in models.split(",") if name.strip()]
        args = {"runId": run_id, "stageSlug": slug, "feedback": words, "models": chosen or None}
        answer = await self.page_context.call_tool(request, "submit_stage_feedback", args)
        if not answer.is_error:
            who = (await self.page_context.caller(request)).user
            done = replace(
                card, outcome=DecisionOutcome(by=who, text="gave feedback", feedback=words)
            )
            return form.redirect_back(request) or await respond(
                self.page_context, request, form, HTTPStatus.OK, feedback=done
            )
        if code_of(answer) == "NOT_AWAITING_REVIEW":
            late = replace(card, outcome=_earlier(answer))
            return await respond(
                self.page_context, request, form, HTTPStatus.CONFLICT, feedback=late
            )
        return await self._refused(request, form, card, error_message(answer))

    async def _refused(
        self, request: Request, form: SubmittedForm, card: FeedbackCard, error: str
    ) -> Response:
        shown = replace(card, typed=replace(card.typed, error=error))
        return await respond(
            self.page_context, request, form, HTTPStatus.BAD_REQUEST, feedback=shown
        )


def _earlier(answer: Answer) -> DecisionOutcome:
    details = error_details(answer)
    at, words = details.get("decidedAt"), details.get("feedback")
    return DecisionOutcome(
        by=str(details.get("decidedBy") or "another user"),
        text="gave feedback",
        at=datetime.fromisoformat(at) if isinstance(at, str) else None,
        feedback=words if isinstance(words, str) else None,
        too_late=True,
    )
