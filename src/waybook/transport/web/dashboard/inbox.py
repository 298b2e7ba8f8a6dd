"""The inbox: everything that waits for a person, longest waiting first."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.transport.web.dashboard.cards import (
    DecisionCard,
    FeedbackCard,
    decision_card,
    feedback_card,
)
from waybook.transport.web.dashboard.desk import PageContext
from waybook.usecases.list_reviews import list_reviews
from waybook.usecases.needs_you import runs_awaiting_feedback

#: So many cards at a time; the rest comes up as these are decided.
MAX_CARDS: Final = 20


@dataclass(frozen=True, slots=True)
class InboxPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """A card for each."""
        call = await self.desk.request_context(request)
        decisions = [decision_card(one) for one in await list_reviews(call, limit=MAX_CARDS)]
        feedback = [
            feedback_card(one) for one in await runs_awaiting_feedback(call, most=MAX_CARDS)
        ]
        every: list[DecisionCard | FeedbackCard] = [*decisions, *feedback]
        every.sort(key=lambda card: card.since)
        return await self.desk.render_page(request, "inbox", cards=every[:MAX_CARDS])
