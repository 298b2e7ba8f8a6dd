"""Where a person's words on a stage of a run arrive."""

from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.mcp.refusals import code_of
from waybook.transport.web.dashboard.cards import FeedbackCard, Outcome, Typed, feedback_card
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.forms import sent
from waybook.transport.web.dashboard.responding import Said, details_of, message_of, respond
from waybook.usecases.exchange import Answer
from waybook.usecases.needs_you import read_stage


@dataclass(frozen=True, slots=True)
class Feedback:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """Pass on what a person says; it opens the next stage."""
        said = Said(await sent(request))
        run_id, slug, words = (said.text(name) for name in ("runId", "stageSlug", "feedback"))
        stage = await read_stage(await self.desk.call(request), run_id, slug)
        models = said.text("models")
        card = replace(feedback_card(stage, Typed(feedback=words)), models=models)
        if not words.strip():
            fault = "say something of the stage: your words open the next one"
            return await self._refused(request, said, card, fault)
        chosen = [name.strip() for name in models.split(",") if name.strip()]
        asked = {"runId": run_id, "stageSlug": slug, "feedback": words, "models": chosen or None}
        answer = await self.desk.enter(request, "submit_stage_feedback", asked)
        if not answer.is_error:
            who = (await self.desk.caller(request)).user
            done = replace(card, outcome=Outcome(by=who, said="gave feedback", feedback=words))
            return said.way_back(request) or await respond(
                self.desk, request, said, HTTPStatus.OK, feedback=done
            )
        if code_of(answer) == "NOT_AWAITING_REVIEW":
            late = replace(card, outcome=_earlier(answer))
            return await respond(self.desk, request, said, HTTPStatus.CONFLICT, feedback=late)
        return await self._refused(request, said, card, message_of(answer))

    async def _refused(
        self, request: Request, said: Said, card: FeedbackCard, fault: str
    ) -> Response:
        shown = replace(card, typed=replace(card.typed, fault=fault))
        return await respond(self.desk, request, said, HTTPStatus.BAD_REQUEST, feedback=shown)


def _earlier(answer: Answer) -> Outcome:
    """What somebody said who was faster."""
    told = details_of(answer)
    at, words = told.get("decidedAt"), told.get("feedback")
    return Outcome(
        by=str(told.get("decidedBy") or "somebody"),
        said="gave feedback",
        at=datetime.fromisoformat(at) if isinstance(at, str) else None,
        feedback=words if isinstance(words, str) else None,
        too_late=True,
    )
