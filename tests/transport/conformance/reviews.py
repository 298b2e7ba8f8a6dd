"""Fake reviews that replace the conformance suite's task tools.

The suite tests MCP tasks, and Waybook creates an MCP task only for a review.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import mcp_types as wire

from transport.fake_dispatcher import RecordingDispatcher
from waybook.app.request.caller import Answer, Caller, ReadableReview
from waybook.transport.mcp.tools import REVIEW

#: Tools of the conformance suite whose calls request a review here. The suite expects calls of
#: `slow_compute` and `failing_job` to end without further calls, in less than a minute.
TASK_TOOLS: Final = frozenset({"slow_compute", "failing_job", "confirm_delete"})
SOON: Final = "soon"
LATER: Final = "later"
MINUTE: Final = 60
NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)


def as_review(params: wire.CallToolRequestParams) -> wire.CallToolRequestParams:
    seconds = (params.arguments or {}).get("seconds", 0)
    ends = params.name != "confirm_delete" and seconds < MINUTE
    arguments = {"stepId": "s", "summary": SOON if ends else LATER}
    return params.model_copy(update={"name": REVIEW, "arguments": arguments})


@dataclass(frozen=True)
class ReviewingDispatcher(RecordingDispatcher):
    """Fake dispatcher that decides a review with the summary `SOON` when the review is read."""

    async def dispatch(self, caller: Caller, tool: str, arguments: Mapping[str, object]) -> Answer:
        if tool == REVIEW:
            named = {"planId": "p", "reviewId": f"review-{len(self.reviews)}", "reviewUrl": "/"}
            self.reviews[named["reviewId"]] = ReadableReview(
                summary=str(arguments["summary"]),
                questions=(),
                requested_at=NOON,
                ended_at=None,
                is_decided=False,
                may_decide=True,
                reply={**named},
            )
            return Answer({**named})
        if tool == "submit_user_decision":
            self.decide(str(arguments["reviewId"]))
        return await super().dispatch(caller, tool, arguments)

    async def read_review(self, caller: Caller, review_id: str) -> ReadableReview:
        review = await super().read_review(caller, review_id)
        if review.summary == SOON:
            self.decide(review_id)
        return review

    def decide(self, review_id: str) -> None:
        review = self.reviews[review_id]
        reply: dict[str, object] = {**review.reply, "decision": "approve"}
        self.reviews[review_id] = replace(review, ended_at=NOON, is_decided=True, reply=reply)
