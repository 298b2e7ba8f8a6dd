"""Where decisions on reviews arrive, from whichever page shows the card.

A form comes with or without JavaScript. Without it, what was decided leads back to where the
person came from, and what was refused is shown with all they had typed. With it, the card alone
is replaced, so that nothing else on the page is lost.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.mcp.refusals import code_of
from waybook.transport.web.dashboard.cards import FormInput, decided_card
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.forms import read_form
from waybook.transport.web.dashboard.responding import (
    SubmittedForm,
    error_details,
    error_message,
    respond,
)
from waybook.usecases.list_reviews import read_review

#: What a person may say; `wait` is what they say who think twice.
DECISIONS: Final = frozenset({"approve", "modify", "skip", "reject", "wait"})
ALREADY_DECIDED_CODES: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})
NO_BUTTON_MESSAGE: Final = "choose one of the buttons"
FEEDBACK_REQUIRED_MESSAGE: Final = (
    "say what should be done differently: whoever works on it reads that"
)


@dataclass(frozen=True, slots=True)
class DecisionHandler:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """Carry out a decision; rejecting is asked twice."""
        said = SubmittedForm(await read_form(request))
        decision, feedback = said.text("decision"), said.text("feedback")
        typed = FormInput(feedback=feedback)
        if decision not in DECISIONS:
            typed = FormInput(feedback=feedback, error=NO_BUTTON_MESSAGE)
            return await self._card(request, said, typed, HTTPStatus.BAD_REQUEST)
        if decision == "wait":
            return await self._card(request, said, typed, HTTPStatus.OK)
        if decision == "reject" and not said.text("confirmed"):
            typed = FormInput(feedback=feedback, confirming=True)
            return await self._card(request, said, typed, HTTPStatus.OK)
        return await self._carry_out(request, said, decision)

    async def _carry_out(self, request: Request, said: SubmittedForm, decision: str) -> Response:
        feedback = said.text("feedback")
        asked = {"planId": said.text("planId"), "reviewId": said.text("reviewId")}
        told = {"feedback": feedback} if feedback.strip() else {}
        answer = await self.desk.call_tool(
            request, "submit_user_decision", {**asked, "decision": decision, **told}
        )
        if not answer.is_error:
            return said.redirect_back(request) or await self._card(
                request, said, FormInput(), HTTPStatus.OK
            )
        needed = error_details(answer).get("argument") == "feedback" and not feedback.strip()
        typed = FormInput(
            feedback=feedback, error=FEEDBACK_REQUIRED_MESSAGE if needed else error_message(answer)
        )
        late = code_of(answer) in ALREADY_DECIDED_CODES
        status = HTTPStatus.CONFLICT if late else HTTPStatus.BAD_REQUEST
        return await self._card(request, said, typed, status, too_late=late)

    async def _card(
        self,
        request: Request,
        said: SubmittedForm,
        typed: FormInput,
        status: int,
        *,
        too_late: bool = False,
    ) -> Response:
        """The review as it stands by now."""
        seen = await read_review(await self.desk.request_context(request), said.text("reviewId"))
        card = decided_card(seen, typed, too_late=too_late)
        return await respond(self.desk, request, said, status, decision=card)
