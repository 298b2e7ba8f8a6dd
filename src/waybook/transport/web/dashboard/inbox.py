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
from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.list_reviews import list_reviews
from waybook.usecases.needs_you import awaiting_runs

#: So many cards at a time; the rest comes up as these are decided.
MOST_CARDS: Final = 20


@dataclass(frozen=True, slots=True)
class Inbox:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """A card for each."""
        call = await self.desk.call(request)
        decisions = [decision_card(one) for one in await list_reviews(call, limit=MOST_CARDS)]
        feedback = [feedback_card(one) for one in await awaiting_runs(call, most=MOST_CARDS)]
        every: list[DecisionCard | FeedbackCard] = [*decisions, *feedback]
        every.sort(key=lambda card: card.since)
        return await self.desk.page(request, "inbox", cards=every[:MOST_CARDS])
