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
from waybook.transport.web.dashboard.cards import Typed, seen_card
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.forms import sent
from waybook.transport.web.dashboard.responding import Said, details_of, message_of, respond
from waybook.usecases.list_reviews import read_review

#: What a person may say; `wait` is what they say who think twice.
DECISIONS: Final = frozenset({"approve", "modify", "skip", "reject", "wait"})
TOO_LATE: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})
UNCLEAR: Final = "choose one of the buttons"
NEEDED: Final = "say what should be done differently: whoever works on it reads that"


@dataclass(frozen=True, slots=True)
class Decisions:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """Carry out a decision; rejecting is asked twice."""
        said = Said(await sent(request))
        decision, feedback = said.text("decision"), said.text("feedback")
        typed = Typed(feedback=feedback)
        if decision not in DECISIONS:
            typed = Typed(feedback=feedback, fault=UNCLEAR)
            return await self._card(request, said, typed, HTTPStatus.BAD_REQUEST)
        if decision == "wait":
            return await self._card(request, said, typed, HTTPStatus.OK)
        if decision == "reject" and not said.text("confirmed"):
            typed = Typed(feedback=feedback, confirming=True)
            return await self._card(request, said, typed, HTTPStatus.OK)
        return await self._carry_out(request, said, decision)

    async def _carry_out(self, request: Request, said: Said, decision: str) -> Response:
        feedback = said.text("feedback")
        asked = {"planId": said.text("planId"), "reviewId": said.text("reviewId")}
        told = {"feedback": feedback} if feedback.strip() else {}
        answer = await self.desk.enter(
            request, "submit_user_decision", {**asked, "decision": decision, **told}
        )
        if not answer.is_error:
            return said.way_back(request) or await self._card(request, said, Typed(), HTTPStatus.OK)
        needed = details_of(answer).get("argument") == "feedback" and not feedback.strip()
        typed = Typed(feedback=feedback, fault=NEEDED if needed else message_of(answer))
        late = code_of(answer) in TOO_LATE
        status = HTTPStatus.CONFLICT if late else HTTPStatus.BAD_REQUEST
        return await self._card(request, said, typed, status, too_late=late)

    async def _card(
        self, request: Request, said: Said, typed: Typed, status: int, *, too_late: bool = False
    ) -> Response:
        """The review as it stands by now."""
        seen = await read_review(await self.desk.call(request), said.text("reviewId"))
        card = seen_card(seen, typed, too_late=too_late)
        return await respond(self.desk, request, said, status, decision=card)
