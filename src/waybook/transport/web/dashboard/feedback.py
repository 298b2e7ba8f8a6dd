"""Where a person's words on a stage of a run arrive."""

from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.mcp.refusals import code_of
from waybook.transport.web.dashboard.cards import (
    DecisionOutcome,
    FeedbackCard,
    FormInput,
    feedback_card,
)
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.forms import read_form
from waybook.transport.web.dashboard.responding import (
    SubmittedForm,
    error_details,
    error_message,
    respond,
)
from waybook.usecases.exchange import Answer
from waybook.usecases.needs_you import read_pending_stage


@dataclass(frozen=True, slots=True)
class FeedbackHandler:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """Pass on what a person says; it opens the next stage."""
        said = SubmittedForm(await read_form(request))
        run_id, slug, words = (said.text(name) for name in ("runId", "stageSlug", "feedback"))
        stage = await read_pending_stage(await self.desk.request_context(request), run_id, slug)
        models = said.text("models")
        card = replace(feedback_card(stage, FormInput(feedback=words)), models=models)
        if not words.strip():
            error = "say something of the stage: your words open the next one"
            return await self._refused(request, said, card, error)
        chosen = [name.strip() for name in models.split(",") if name.strip()]
        asked = {"runId": run_id, "stageSlug": slug, "feedback": words, "models": chosen or None}
        answer = await self.desk.call_tool(request, "submit_stage_feedback", asked)
        if not answer.is_error:
            who = (await self.desk.caller(request)).user
            done = replace(
                card, outcome=DecisionOutcome(by=who, text="gave feedback", feedback=words)
            )
            return said.redirect_back(request) or await respond(
                self.desk, request, said, HTTPStatus.OK, feedback=done
            )
        if code_of(answer) == "NOT_AWAITING_REVIEW":
            late = replace(card, outcome=_earlier(answer))
            return await respond(self.desk, request, said, HTTPStatus.CONFLICT, feedback=late)
        return await self._refused(request, said, card, error_message(answer))

    async def _refused(
        self, request: Request, said: SubmittedForm, card: FeedbackCard, error: str
    ) -> Response:
        shown = replace(card, typed=replace(card.typed, error=error))
        return await respond(self.desk, request, said, HTTPStatus.BAD_REQUEST, feedback=shown)


def _earlier(answer: Answer) -> DecisionOutcome:
    """What somebody said who was faster."""
    told = error_details(answer)
    at, words = told.get("decidedAt"), told.get("feedback")
    return DecisionOutcome(
        by=str(told.get("decidedBy") or "somebody"),
        text="gave feedback",
        at=datetime.fromisoformat(at) if isinstance(at, str) else None,
        feedback=words if isinstance(words, str) else None,
        too_late=True,
    )
